#include "protocol/http/server_context.h"

#include <array>
#include <cstdio>
#include <random>

namespace reprise::protocol {

const ReplyFormat& FormatCache::of(const ModelCard& card) {
  const auto [found, is_new] = known_.try_emplace(card.id);
  Known& known = found->second;
  if (is_new || known.chat_template != card.chat_template) {
    known = {card.chat_template, detect_reply_format(card.chat_template)};
  }
  return known.format;
}

ServerContext::ServerContext(HttpOptions given, Service& engine)
    : options(std::move(given)), service(engine) {
  std::random_device device;
  id_seed_ = (std::uint64_t{device()} << 32) | device();
}

ReplyFormat ServerContext::format_of(const std::string& model) {
  for (const ModelCard& card : service.models()) {
    if (model.empty() || card.id == model) return formats_.of(card);
  }
  return {};
}

std::string ServerContext::new_id() {
  std::array<char, 32> text;
  // The counter makes it unique, the seed unlike that of other servers.
  const int length = std::snprintf(text.data(), text.size(), "%014llx%010llx",
                                   static_cast<unsigned long long>(id_seed_ >> 8),
                                   static_cast<unsigned long long>(++requests_ & 0xFFFFFFFFFF));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace reprise::protocol
