// `reprise render`: a chat template and a conversation in, the prompt out.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace reprise::tools {

struct RenderOptions {
  std::filesystem::path template_file;
  std::string now;  // 2026-11-14T12:00:00Z, for strftime_now; empty: the clock
};

// Reads one JSON object, the variables of the template, and writes the rendered text as it is, no newline
// added. Returns the exit status of the program: 1, with the reason on `log`, when the template or the JSON
// cannot be read or the template fails. Throws UsageError for a time that is none.
int render(const RenderOptions& options, std::istream& in, std::ostream& out, std::ostream& log);

}  // namespace reprise::tools
