#include "tools/reprise/logits.h"

#include <cstdio>

#include "tools/reprise/json_text.h"
#include "tools/reprise/single_sequence.h"

namespace reprise::tools {

int print_logits(const LogitsOptions& options) {
  const std::vector<TokenId> tokens = parse_token_ids(options.tokens);
  SingleSequence sequence(options.engine);
  sequence.begin(tokens.size());
  bool first = true;
  if (options.json) std::fputs("{\"logits\": [", stdout);
  sequence.append(tokens, options.all, [&](std::span<const float> row) {
    if (options.json && !first) std::fputs(",\n", stdout);
    first = false;
    const std::string text = json_array(row);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!options.json) std::fputc('\n', stdout);
  });
  if (options.json) std::fputs("]}\n", stdout);
  return std::ferror(stdout) != 0 ? 1 : 0;
}

}  // namespace reprise::tools
