#include "protocol/api/reply.h"

namespace reprise::protocol {

ReplyParser ReplyContext::parser_of(std::uint32_t choice, const Started& started) const {
  ReplyParserOptions options = parser;
  options.prompt_tail = started.prompt_tail;
  options.id_seed = id + '_' + std::to_string(choice);
  return chat == nullptr ? ReplyParser({}, std::move(options)) : chat->parser(std::move(options));
}

}  // namespace reprise::protocol
