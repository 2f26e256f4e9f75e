#include "protocol/api/endpoint.h"

#include "protocol/sampled_turns.h"

namespace reprise::protocol {
namespace {

class OpenAiDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const Error& error) const override {
    return {shown(error).status, error_envelope(error).dump()};
  }
};

}  // namespace

const Dialect& openai_dialect() {
  static const OpenAiDialect kDialect;
  return kDialect;
}

ReplyParser ReplyContext::parser_of(std::uint32_t choice, const Started& started) const {
  ReplyParserOptions options = parser;
  options.prompt_tail = started.prompt_tail;
  options.id_seed = turn_id(id, choice);
  return chat == nullptr ? ReplyParser({}, std::move(options)) : chat->parser(std::move(options));
}

}  // namespace reprise::protocol
