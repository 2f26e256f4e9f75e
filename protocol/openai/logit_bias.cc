#include "protocol/openai/logit_bias.h"

#include <charconv>
#include <limits>

#include "protocol/api/api_error.h"

namespace reprise::protocol::openai {
namespace {

constexpr std::size_t kMostTextBytes = 1024;

float read_bias(const Json& value, const std::string& path) {
  if (value.is_bool() && !value.as_bool()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number()) refuse_kind(path, "a number", value);
  const double bias = value.as_double();
  if (!(bias >= -100 && bias <= 100)) {
    refuse_field(path, "out_of_range", show_number(bias) + " is not from -100 to 100");
  }
  return static_cast<float>(bias);
}

void add_by_text(const std::string& text, const Json& value, const std::string& path,
                 GenerateRequest& request) {
  if (text.empty() || text.size() > kMostTextBytes) {
    refuse_field(path, "invalid_value",
                 "a text has from 1 to " + std::to_string(kMostTextBytes) + " bytes, not " +
                     std::to_string(text.size()));
  }
  request.text_bias.push_back({text, read_bias(value, path)});
}

void add_member(const Json::Member& member, Manners manners, GenerateRequest& request) {
  TokenId id = 0;
  const char* end = member.key.data() + member.key.size();
  const auto [stopped, error] = std::from_chars(member.key.data(), end, id);
  if (stopped != end && manners == Manners::kLlamaServer)
    return add_by_text(member.key, member.value, "logit_bias", request);
  if (error != std::errc() || stopped != end || id < 0) {
    refuse_field("logit_bias", "invalid_value", in_quotes(member.key) + " is not a token id");
  }
  const float bias = read_bias(member.value, "logit_bias." + std::to_string(id));
  request.sampling.logit_bias.push_back({id, bias});
}

void add_pair(const Json& pair, const std::string& path, GenerateRequest& request) {
  if (!pair.is_array() || pair.size() != 2) refuse_kind(path, "a pair of a token and its bias", pair);
  const Json& token = pair.as_array()[0];
  const Json& value = pair.as_array()[1];
  if (token.is_string()) return add_by_text(token.as_string(), value, path, request);
  if (!token.is_int()) refuse_kind(item_of(path, 0), "a token id or a text", token);
  if (token.as_int() < 0 || token.as_int() > std::numeric_limits<TokenId>::max()) {
    refuse_field(item_of(path, 0), "invalid_value", std::to_string(token.as_int()) + " is not a token id");
  }
  request.sampling.logit_bias.push_back({static_cast<TokenId>(token.as_int()), read_bias(value, path)});
}

}  // namespace

void read_logit_bias(const Fields& fields, const BodyLimits& limits, Manners manners,
                     GenerateRequest& request) {
  const Json* given = fields.find("logit_bias");
  if (given == nullptr) return;
  const bool takes_lists = manners == Manners::kLlamaServer;
  if (!given->is_object() && !(takes_lists && given->is_array()))
    refuse_kind("logit_bias", "an object", *given);
  if (given->size() > limits.logit_biases) {
    refuse_field("logit_bias", "too_many",
                 std::to_string(given->size()) + " tokens, more than " + std::to_string(limits.logit_biases));
  }
  if (given->is_object()) {
    for (const Json::Member& member : given->as_object()) add_member(member, manners, request);
  } else {
    for (std::size_t i = 0; i < given->size(); ++i) {
      add_pair(given->as_array()[i], item_of("logit_bias", i), request);
    }
  }
}

}  // namespace reprise::protocol::openai
