#pragma once
// A model's tokenizer, as its chat format wants it.
//
// Threading: what it gives may be called from any thread, and keeps the tokenizer.

#include <cstdint>
#include <memory>

#include "models/text/tokenizer.h"
#include "protocol/chat/chat_format.h"

namespace reprise::actors {

/// Who writes the BOS of a chat's prompt: the template, as those that come with models do, or the tokenizer, in front of
/// what the template writes, where the model was made with one.
enum class BosBy : std::uint8_t { kTemplate, kTokenizer };

protocol::ChatFormat::Tokens chat_tokens(std::shared_ptr<const models::Tokenizer> tokenizer,
                                         BosBy bos = BosBy::kTemplate);

}  // namespace reprise::actors
