// `reprise tokenize`: JSON strings in, token ids out.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace reprise::tools {

struct TokenizeOptions {
  std::filesystem::path model;  // a Hugging Face folder or a GGUF file; weights need not be there
};

// Reads one JSON string a line and writes its token ids as a JSON array, one a line: special tokens in the
// text count as such, no BOS is added. Returns the exit status of the program: 1, with the reason on `log`,
// when the tokenizer cannot be loaded or a line is no JSON string; the lines before that one have been
// answered.
int tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& log);

}  // namespace reprise::tools
