#pragma once
// A server to chat with: POST /v1/chat/completions, as a stream. Any that speaks OpenAI's API will do; Reprise tells
// besides what its cache did.
//
// Bounds: an event of the stream has kMostEventBytes, an answer to a question kMostAnswerBytes; a connection that is
// not made within ten seconds fails.
//
// Threading: as chat_partner.h.

#include <cstddef>
#include <memory>

#include "tools/reprise/chat.h"
#include "tools/reprise/chat_partner.h"

namespace reprise::tools {

inline constexpr std::size_t kMostEventBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostAnswerBytes = std::size_t{16} << 20;

/// The one at options.url; the options must outlive it.
std::unique_ptr<ChatPartner> server_partner(const ChatOptions& options);

}  // namespace reprise::tools
