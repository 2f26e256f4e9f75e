#pragma once
// TokenizerSpec from the metadata of a GGUF file (tokenizer.ggml.*): byte-level BPE ("gpt2"), SentencePiece
// ("llama"), WordPiece ("bert") and RWKV's longest match ("rwkv"). Another model or an unknown pre-tokenizer
// ends in a LoadError that names it.
//
// As in llama.cpp no text is put into a normal form, whatever the tokenizer.json of the model says: the file
// does not tell. Control, user-defined and unknown tokens are recognised in the text.
//
// Threading: a pure function.

#include "models/files/gguf_metadata.h"
#include "models/text/tokenizer_spec.h"

namespace reprise::models {

TokenizerSpec spec_of_gguf(const GgufMetadata& metadata);

}  // namespace reprise::models
