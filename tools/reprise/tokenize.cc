#include "tools/reprise/tokenize.h"

#include <charconv>
#include <cstddef>
#include <exception>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "models/files/json_place.h"
#include "models/text/tokenizer_load.h"

namespace reprise::tools {
namespace {

std::string to_json(const std::vector<TokenId>& ids) {
  std::string out = "[";
  for (const TokenId id : ids) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, id).ptr;
    if (out.size() > 1) out += ',';
    out.append(digits, end);
  }
  return out += "]\n";
}

}  // namespace

int tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& log) {
  try {
    const models::Tokenizer tokenizer = models::load_tokenizer(options.model);
    std::string line;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
      const std::string place = "line " + std::to_string(number);
      out << to_json(tokenizer.encode(models::JsonPlace::parse(line, place).text()));
      if (!out) {
        log << "reprise: cannot write the token ids of " << place << std::endl;
        return 1;
      }
    }
    out.flush();
    return out ? 0 : 1;
  } catch (const std::exception& error) {
    out.flush();
    log << "reprise: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace reprise::tools
