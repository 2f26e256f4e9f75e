#include "protocol/api/body.h"

#include <limits>

#include "protocol/api/api_error.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {
namespace {

constexpr std::int64_t kMostToken = std::numeric_limits<TokenId>::max();

}  // namespace

TokenList read_token_list(const Json::Array& items, const std::string& path, const BodyLimits& limits) {
  if (items.size() > limits.prompt_tokens) {
    refuse_field(path, "too_long",
                 std::to_string(items.size()) + " tokens, more than " + std::to_string(limits.prompt_tokens));
  }
  TokenList tokens;
  tokens.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_int()) refuse_kind(item_of(path, i), "a token id", items[i]);
    const std::int64_t id = items[i].as_int();
    if (id < 0 || id > kMostToken) {
      refuse_field(item_of(path, i), "out_of_range", std::to_string(id) + " is not a token id");
    }
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

Json parse_body(std::string_view body, const BodyLimits& limits, BodyHolds holds) {
  const std::size_t ids = holds == BodyHolds::kTokenIds ? limits.prompt_tokens : 0;
  Outcome<Json, JsonError> parsed = Json::parse(body, {.bytes = body.size(),
                                                       .depth = limits.nesting,
                                                       .values = limits.values + ids,
                                                       .members = limits.members});
  if (!parsed) throw BadRequest({.message = parsed.error().message, .code = "invalid_json"});
  if (!parsed->is_object()) {
    throw BadRequest({.message = std::string("the body must be a JSON object, not ") + parsed->kind_name(),
                      .code = "invalid_json"});
  }
  return std::move(*parsed);
}

}  // namespace reprise::protocol
