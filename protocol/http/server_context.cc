#include "protocol/http/server_context.h"

#include <algorithm>
#include <random>
#include <string_view>

namespace reprise::protocol {

ServerContext::ServerContext(HttpOptions given, ApiTable apis, Service& engine, runtime::System& actors,
                             runtime::HomePtr loop)
    : options(std::move(given)),
      routes(std::move(apis), options.front_page),
      service(engine),
      system(actors),
      home(std::move(loop)),
      bodies(actors, options.inline_body_bytes, options.request),
      body_budget(std::max(options.bodies_bytes, options.body_bytes)) {}

ChatFormatPtr ServerContext::chat_of(const std::string& model) const {
  const std::vector<ModelCard> cards = service.models();
  const ModelCard* card = card_named(cards, model);
  return card == nullptr ? nullptr : card->chat;
}

std::string ServerContext::nearest_model(const std::string& name) const {
  return protocol::nearest_model(service.models(), name);
}

std::string new_id() {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::random_device device;  // the system's: no generator whose state a few numbers give away
  std::string text;
  for (int word = 0; word < 4; ++word) {
    for (unsigned bits = device(), i = 0; i < 8; ++i, bits >>= 4) text += kHex[bits & 15];
  }
  return text;
}

}  // namespace reprise::protocol
