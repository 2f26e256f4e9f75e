#pragma once
// Adapts a tokenizer to the interface that chat formats need. The functions may be called from any thread and
// keep the tokenizer alive.

#include <cstdint>
#include <memory>

#include "models/text/tokenizer.h"
#include "protocol/chat/chat_format.h"

namespace reprise::actors {

/// The writer of the BOS of a chat prompt: the template, as with models that include one, or the tokenizer,
/// before the text of the template, if the model was trained with a BOS.
enum class BosBy : std::uint8_t { kTemplate, kTokenizer };

protocol::ChatFormat::Tokens chat_tokens(std::shared_ptr<const models::Tokenizer> tokenizer,
                                         BosBy bos = BosBy::kTemplate);

}  // namespace reprise::actors
