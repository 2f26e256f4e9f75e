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
  return reply_parser(chat.get(), parser, started, turn_id(id, choice));
}

}  // namespace reprise::protocol
