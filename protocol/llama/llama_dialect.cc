#include "protocol/llama/llama_dialect.h"

#include "base/utf8.h"

namespace reprise::protocol::llama {
namespace {

std::string_view type_of_error(const Error& error, int status) {
  if (error.lengths) return "exceed_context_size_error";
  if (status == 501) return "not_supported_error";
  if (status == 503) return "unavailable_error";
  return error_type(status);
}

std::string message_of(const Error& error) {
  if (!error.lengths) return as_utf8(error.message);
  return "the request exceeds the available context size: " + as_utf8(error.message);
}

class LlamaDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const Error& error) const override {
    return {shown(error).status, error_body(error).dump()};
  }
};

}  // namespace

Json error_body(const Error& error) {
  const ShownError told = shown(error);
  Json body{{"code", told.code}, {"message", message_of(error)}, {"type", type_of_error(error, told.status)}};
  if (!told.param.empty()) body["param"] = as_utf8(told.param);
  if (error.lengths) {
    body["n_prompt_tokens"] = static_cast<std::int64_t>(error.lengths->prompt);
    body["n_ctx"] = static_cast<std::int64_t>(error.lengths->context);
  }
  return Json{{"error", std::move(body)}};
}

const Dialect& dialect() {
  static const LlamaDialect kDialect;
  return kDialect;
}

}  // namespace reprise::protocol::llama
