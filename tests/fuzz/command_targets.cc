// Inputs of the program: the configuration of `reprise serve`, traces of `reprise replay`, and file lists of
// the hub.
#include <algorithm>
#include <string>

#include "models/files/load_error.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tools/reprise/hub.h"
#include "tools/reprise/serve_config.h"
#include "tools/reprise/trace_file.h"

namespace reprise::fuzz {

bool fuzz_serve_config(std::string_view input) {
  tools::ServeConfig config;
  try {
    tools::load_config_file(config, scratch_file("serve.toml", input).string());
  } catch (const tools::UsageError& error) {
    REPRISE_CHECK(error.what()[0] != '\0', "a refusal without a reason");
    return false;
  }
  const std::string printed = tools::print_config(config);
  tools::ServeConfig again;
  tools::load_config_file(again, scratch_file("printed.toml", printed).string());
  REPRISE_CHECK(tools::print_config(again) == printed, "the printed configuration is read as another one");
  return true;
}

bool fuzz_trace(std::string_view input) {
  constexpr std::uint32_t kBlock = 16;
  try {
    tools::TraceFile trace(scratch_file("trace.jsonl", input), kBlock);
    std::chrono::nanoseconds last{};
    TokenList prompt;
    while (const auto request = trace.next()) {
      REPRISE_CHECK(request->time >= last, "a request in the past");
      last = request->time;
      request->expand(kBlock, prompt);
      REPRISE_CHECK(prompt.size() == request->input_tokens, "a prompt of another length");
    }
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
    return false;
  }
}

/// A file list of the hub; the last bytes choose the wanted files.
bool fuzz_hub(std::string_view input) {
  try {
    const auto files = tools::read_hub_list(std::string(input), "a/b");
    for (const tools::HubFile& file : files) {
      REPRISE_CHECK(tools::is_safe_path(file.path), "a file outside of its folder");
      REPRISE_CHECK(file.sha256.empty() || file.sha256.size() == 64, "a checksum of another length");
    }
    for (const std::string_view name :
         {std::string_view("a/b"), std::string_view("hf:a/b:Q4_K_M"),
          input.substr(input.size() - std::min<std::size_t>(input.size(), 12))}) {
      try {
        for (const tools::HubFile& file : tools::wanted_files(files, tools::parse_hub_name(name))) {
          REPRISE_CHECK(tools::is_safe_path(file.path), "a file outside of its folder");
        }
      } catch (const tools::UsageError& error) {
        REPRISE_CHECK(error.what()[0] != '\0', "a refusal without a reason");
      }
    }
    return true;
  } catch (const std::runtime_error& error) {
    REPRISE_CHECK(error.what()[0] != '\0', "a refusal without a reason");
    return false;
  }
}

}  // namespace reprise::fuzz
