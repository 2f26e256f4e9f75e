#pragma once
// The tokens of a text with a gap, for models whose vocabulary has marks for its places.
//
//   [BOS] [files] PREFIX before the gap SUFFIX behind it MIDDLE opening
//
// Which tokens are the marks is known by how families write them.
//
// Threading: a pure function.

#include <optional>

#include "models/text/tokenizer.h"
#include "protocol/service.h"

namespace reprise::actors {

/// Nothing where the vocabulary has no such marks. Marks that stand in the texts are text.
std::optional<TokenList> infill_tokens(const protocol::InfillPrompt& prompt,
                                       const models::Tokenizer& tokenizer);

}  // namespace reprise::actors
