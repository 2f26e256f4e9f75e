#include "protocol/api/reply.h"

#include "protocol/sampled_turns.h"

namespace reprise::protocol {

ReplyParser ReplyContext::parser_of(std::uint32_t choice, const Started& started) const {
  ReplyParserOptions options = parser;
  options.prompt_tail = started.prompt_tail;
  options.id_seed = turn_id(id, choice);
  return chat == nullptr ? ReplyParser({}, std::move(options)) : chat->parser(std::move(options));
}

}  // namespace reprise::protocol
