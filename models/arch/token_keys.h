#pragma once
// What a source says about special tokens and sampling.
//
// Threading: pure functions. What is wrong ends in a LoadError.

#include "models/arch/config.h"
#include "models/arch/config_source.h"

namespace reprise::models {

/// Token ids lie within the vocabulary. generation_config.json speaks before config.json.
TokenIds read_token_ids(const ConfigSource& source, std::size_t vocab);

/// What the model's authors recommend.
SamplingWishes read_recommended_sampling(const ConfigSource& source);

}  // namespace reprise::models
