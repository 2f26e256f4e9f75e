#include "protocol/openai/embeddings.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "base/json_text.h"
#include "protocol/api/field_rules.h"
#include "protocol/openai/reply_text.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {
namespace {

struct EmbeddingForm {
  bool base64 = false;
  bool normalize = true;
  std::uint32_t dimensions = 0;  // 0: all
  std::size_t inputs = 1;
};

void normalize(std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double length = std::sqrt(squares);
  if (length == 0) return;
  for (float& value : values) value = static_cast<float>(value / length);
}

std::string bytes_of(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class EmbeddingReply final : public Reply {
 public:
  explicit EmbeddingReply(const EmbeddingForm& form) : form_(form), values_(form.inputs) {}

  void admitted(const Admitted& event, std::int64_t, std::string&) override { model_ = event.model; }
  void started(const Started&, std::string&) override {}
  void delta(Delta, std::string&) override {}
  void finished(const Finished&, std::string&) override {}
  void embedded(Embedded event, std::string&) override {
    REPRISE_CHECK(event.prompt_index < values_.size(),
                  "an engine event has the index of an input that the request does not have");
    std::vector<float>& values = values_[event.prompt_index];
    values = std::move(event.values);
    if (form_.dimensions > 0 && form_.dimensions < values.size()) values.resize(form_.dimensions);
    if (form_.normalize) normalize(values);
  }
  void done(const Done& event, std::string& out) override {
    out += "{\"object\":\"list\",\"data\":[";
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i > 0) out += ',';
      out += "{\"object\":\"embedding\",\"index\":";
      append_integer(out, static_cast<std::int64_t>(i));
      out += ",\"embedding\":";
      append_values(values_[i], out);
      out += '}';
    }
    out += "],\"model\":";
    append_json_string(out, model_);
    out += ",\"usage\":{\"prompt_tokens\":";
    append_integer(out, event.usage.prompt_tokens);
    out += ",\"total_tokens\":";
    append_integer(out, event.usage.prompt_tokens);
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
    append_integer(out, event.usage.cache.restored_tokens);
    out += "}},\"reprise\":";
    append_reprise(out, event.usage);
    out += '}';
  }

 private:
  void append_values(const std::vector<float>& values, std::string& out) const {
    if (form_.base64) {
      append_json_string(out, to_base64(bytes_of(values)));
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      append_json_double(out, double{values[i]}, false);
    }
    out += ']';
  }

  const EmbeddingForm form_;
  std::string model_;
  std::vector<std::vector<float>> values_;
};

class EmbeddingCall final : public GenerationCall {
 public:
  EmbeddingCall(ApiRequest asked, const EmbeddingForm& form)
      : GenerationCall(std::move(asked)), form_(form) {}

  std::unique_ptr<StreamedReply> stream(ReplyContext) override { return nullptr; }  // stream is refused
  std::unique_ptr<Reply> whole(ReplyContext) override { return std::make_unique<EmbeddingReply>(form_); }

 private:
  const EmbeddingForm form_;
};

/// One of two words; the first where the field is not there. Whether it is the second.
bool is_second(const Fields& fields, const char* name, std::string_view first, std::string_view second) {
  const std::string* word = fields.string(name, 64);
  if (word == nullptr || *word == first) return false;
  if (*word != second) {
    refuse_field(name, "invalid_value",
                 in_quotes(*word) + " is not one of " + std::string(first) + ", " + std::string(second));
  }
  return true;
}

}  // namespace

std::unique_ptr<GenerationCall> embedding_call(const Json& body, const BodyLimits& limits) {
  const Fields fields(body);
  ApiRequest asked;
  read_basics(fields, limits, asked);
  GenerateRequest& generate = asked.generate;
  if (asked.stream) refuse_unsupported("stream", "there is nothing to be streamed");
  if (generate.n != 1) refuse_unsupported("n", "is not supported here");
  const Json* input = fields.find("input");
  if (input == nullptr) refuse_field("input", "missing", "is required");
  std::vector<Prompt> prompts = read_prompts(*input, "input", limits);
  EmbeddingForm form{.inputs = prompts.size()};
  form.base64 = is_second(fields, "encoding_format", "float", "base64");
  form.normalize = fields.boolean_or("normalize", true);
  form.dimensions = static_cast<std::uint32_t>(fields.integer("dimensions", 1, 1 << 20).value_or(0));
  generate.embedding =
      EmbeddingWish{.pooling = is_second(fields, "pooling", "last", "mean") ? Pooling::kMean : Pooling::kLast,
                    .dimensions = form.dimensions};
  generate.max_tokens = 1;
  generate.prompt = std::move(prompts.front());
  prompts.erase(prompts.begin());
  asked.further_prompts = std::move(prompts);
  asked.unknown_fields = unknown_fields_of(fields);
  return std::make_unique<EmbeddingCall>(std::move(asked), form);
}

}  // namespace reprise::protocol::openai
