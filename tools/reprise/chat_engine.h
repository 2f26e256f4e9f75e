#pragma once
// A model in the same process, to chat with.
//
// Threading: as chat_partner.h.

#include <memory>

#include "tools/reprise/chat.h"
#include "tools/reprise/chat_partner.h"

namespace reprise::tools {

/// Begins to load the model that the options name, which must outlive it.
std::unique_ptr<ChatPartner> engine_partner(const ChatOptions& options);

}  // namespace reprise::tools
