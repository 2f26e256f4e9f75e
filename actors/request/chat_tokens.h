#pragma once
// A model's tokenizer, as its chat format wants it.
//
// Threading: what it gives may be called from any thread, and keeps the tokenizer.

#include <memory>

#include "models/text/tokenizer.h"
#include "protocol/chat/chat_format.h"

namespace reprise::actors {

protocol::ChatFormat::Tokens chat_tokens(std::shared_ptr<const models::Tokenizer> tokenizer);

}  // namespace reprise::actors
