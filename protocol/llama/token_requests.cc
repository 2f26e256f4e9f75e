#include "protocol/llama/token_requests.h"

#include "base/json_text.h"
#include "base/utf8.h"
#include "protocol/api/api_error.h"
#include "protocol/api/completions_request.h"
#include "protocol/api/field_rules.h"
#include "protocol/api/fields.h"
#include "protocol/api/reply_text.h"

namespace reprise::protocol::llama {
namespace {

std::string read_model(const Fields& fields, const BodyLimits& limits) {
  const std::string* model = fields.string("model", limits.label_bytes);
  return model == nullptr ? std::string() : *model;
}

void note_unknown(const Fields& fields, std::vector<std::string>* unknown) {
  std::vector<std::string> names = unknown_fields_of(fields);
  if (unknown != nullptr) *unknown = std::move(names);
}

void append_piece(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_integer(out, static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

}  // namespace

TokenizeRequest read_tokenize(std::string_view body, const BodyLimits& limits,
                              std::vector<std::string>* unknown) {
  const Json json = parse_body(body, limits, BodyHolds::kText);
  const Fields fields(json);
  const std::string* content = fields.string("content", limits.prompt_bytes);
  if (content == nullptr) refuse_field("content", "missing", "is required");
  TokenizeRequest request{.model = read_model(fields, limits),
                          .text = *content,
                          .add_special = fields.boolean_or("add_special", false),
                          .parse_special = fields.boolean_or("parse_special", true),
                          .with_pieces = fields.boolean_or("with_pieces", false)};
  note_unknown(fields, unknown);
  return request;
}

std::string tokenize_body(const Tokenized& answer, bool with_pieces) {
  std::string out = "{\"tokens\":[";
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    if (i > 0) out += ',';
    if (!with_pieces) {
      append_integer(out, answer.tokens[i]);
      continue;
    }
    out += "{\"id\":";
    append_integer(out, answer.tokens[i]);
    out += ",\"piece\":";
    append_piece(out, i < answer.pieces.size() ? answer.pieces[i] : std::string());
    out += '}';
  }
  out += "]}";
  return out;
}

DetokenizeRequest read_detokenize(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown) {
  const Json json = parse_body(body, limits, BodyHolds::kTokenIds);
  const Fields fields(json);
  const Json::Array* tokens = fields.array("tokens");
  if (tokens == nullptr) refuse_field("tokens", "missing", "is required");
  DetokenizeRequest request{.model = read_model(fields, limits),
                            .tokens = read_token_list(*tokens, "tokens", limits)};
  note_unknown(fields, unknown);
  return request;
}

std::string detokenize_body(const Detokenized& answer) {
  std::string out = "{\"content\":";
  append_lossy_string(out, answer.text);
  out += '}';
  return out;
}

RenderRequest read_apply_template(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown) {
  const Json json = parse_body(body, limits, BodyHolds::kText);
  ApiRequest asked = read_text_request(TextKind::kChat, json, limits, ApiFlavor::kLlamaServer).asked;
  if (unknown != nullptr) *unknown = std::move(asked.unknown_fields);
  return {.model = std::move(asked.generate.model),
          .chat = std::move(std::get<ChatPrompt>(asked.generate.prompt))};
}

std::string apply_template_body(const Rendered& answer) {
  std::string out = "{\"prompt\":";
  append_lossy_string(out, answer.prompt);
  out += '}';
  return out;
}

std::string input_tokens_body(const Rendered& answer) {
  std::string out = "{\"input_tokens\":";
  append_integer(out, static_cast<std::int64_t>(answer.tokens.size()));
  out += '}';
  return out;
}

}  // namespace reprise::protocol::llama
