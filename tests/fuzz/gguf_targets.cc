// GGUF: header, metadata, tensors, and the model files and tokenizer built from them.
#include "models/files/gguf.h"
#include "models/files/load_error.h"
#include "models/text/regex.h"
#include "models/text/tokenizer.h"
#include "models/text/tokenizer_gguf.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/models/files/loader_invariants.h"

namespace reprise::fuzz {

using models::test::fault_of;

bool fuzz_gguf(std::string_view input) {
  const auto file = scratch_file("model.gguf", input);
  try {
    REPRISE_CHECK(fault_of(models::Gguf::open(file)).empty(), "a file that is not what it says");
    const models::ModelFiles files = models::ModelFiles::open(file);
    REPRISE_CHECK(fault_of(files).empty(), "a checkpoint that is not what it says");
    files.validate();
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  }
  return false;
}

bool fuzz_gguf_tokenizer(std::string_view input) {
  const auto file = scratch_file("tokenizer.gguf", input);
  try {
    const models::Gguf gguf = models::Gguf::open(file);
    const models::Tokenizer tokenizer(models::spec_of_gguf(gguf.metadata()));
    const auto ids = tokenizer.encode(input.substr(0, 256));
    for (const TokenId id : ids) {
      REPRISE_CHECK(id >= 0 && static_cast<std::size_t>(id) < tokenizer.vocab_size(), "an id that is none");
    }
    static_cast<void>(tokenizer.decode(ids));
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  } catch (const models::RegexError&) {  // the search exceeded its limits
  }
  return false;
}

}  // namespace reprise::fuzz
