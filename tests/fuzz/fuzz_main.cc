// The libFuzzer program for all targets; --target=NAME or REPRISE_FUZZ_TARGET chooses one.
// --targets          lists the targets with their dictionaries or "-", and "grown" for those with a grower
// --stack-kib=N      or REPRISE_FUZZ_STACK_KIB: stack for targets with a grower (8192)
// --grown FILE       prints the text that the target grows from FILE, and exits
//
// A violation of the oracle (oracle.h) counts as a crash.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/fuzz/oracle.h"
#include "tests/fuzz/targets.h"

namespace {

const reprise::fuzz::Target* chosen = nullptr;
std::size_t stack_bytes = std::size_t{8} << 20;

void list_targets(std::FILE* out) {
  for (const auto& target : reprise::fuzz::targets()) {
    const std::string_view dictionary = target.dictionary.empty() ? "-" : target.dictionary;
    std::fprintf(out, "%.*s %.*s%s\n", int(target.name.size()), target.name.data(), int(dictionary.size()),
                 dictionary.data(), target.grow != nullptr ? " grown" : "");
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* variable = std::getenv("REPRISE_FUZZ_TARGET");
  std::string_view name = variable != nullptr ? variable : "";
  const char* stack_kib = std::getenv("REPRISE_FUZZ_STACK_KIB");
  std::string grown;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--targets") {
      list_targets(stdout);
      std::exit(0);
    }
    if (argument.starts_with("--target=")) {
      name = argument.substr(std::strlen("--target="));
      // libFuzzer passes only its own arguments to its child processes.
      ::setenv("REPRISE_FUZZ_TARGET", name.data(), 1);
    } else if (argument.starts_with("--stack-kib=")) {
      stack_kib = (*argv)[i] + std::strlen("--stack-kib=");
      ::setenv("REPRISE_FUZZ_STACK_KIB", stack_kib, 1);
    } else if (argument == "--grown" && i + 1 < *argc) {
      grown = (*argv)[++i];
    } else {
      (*argv)[kept++] = (*argv)[i];
    }
  }
  *argc = kept;
  (*argv)[kept] = nullptr;
  chosen = reprise::fuzz::find_target(name);
  if (chosen == nullptr) {
    std::fprintf(stderr, "reprise_fuzz: --target=NAME must be one of\n");
    list_targets(stderr);
    std::exit(2);
  }
  if (stack_kib != nullptr) stack_bytes = std::strtoul(stack_kib, nullptr, 10) << 10;
  if (stack_bytes < (std::size_t{64} << 10)) {
    std::fprintf(stderr, "reprise_fuzz: --stack-kib: expected 64 or more\n");
    std::exit(2);
  }
  if (!grown.empty()) {
    std::ifstream in(grown, std::ios::binary);
    const std::string text =
        reprise::fuzz::text_of(*chosen, std::string(std::istreambuf_iterator<char>(in), {}));
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto run =
      reprise::fuzz::run_watched(*chosen, input, {.stack_bytes = chosen->grow != nullptr ? stack_bytes : 0});
  if (!run.fault.empty()) {
    std::fprintf(stderr, "reprise_fuzz: %s\n", run.fault.c_str());
    std::abort();
  }
  return 0;
}
