#include "protocol/llama/llama_dialect.h"

#include "base/utf8.h"

namespace reprise::protocol::llama {
namespace {

std::string_view type_of_error(const ApiError& error) {
  if (error.lengths) return "exceed_context_size_error";
  if (error.status == 501) return "not_supported_error";
  if (error.status == 503) return "unavailable_error";
  return error_type(error);
}

std::string message_of(const ApiError& error) {
  if (!error.lengths) return as_utf8(error.message);
  return "the request exceeds the available context size: " + as_utf8(error.message);
}

class LlamaDialect final : public Dialect {
 public:
  ErrorAnswer error_answer(const ApiError& error) const override {
    return {error.status, error_body(error).dump()};
  }
};

}  // namespace

Json error_body(const ApiError& error) {
  Json body{{"code", error.code}, {"message", message_of(error)}, {"type", type_of_error(error)}};
  if (!error.param.empty()) body["param"] = as_utf8(error.param);
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
