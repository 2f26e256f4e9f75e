// The libFuzzer side: one program for all targets, of which --target=NAME or REPRISE_FUZZ_TARGET chooses one.
// --targets lists them, each with its dictionary.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

const reprise::fuzz::Target* chosen = nullptr;

void list_targets(std::FILE* out) {
  for (const auto& target : reprise::fuzz::targets()) {
    std::fprintf(out, "%.*s %.*s\n", int(target.name.size()), target.name.data(),
                 int(target.dictionary.size()), target.dictionary.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* variable = std::getenv("REPRISE_FUZZ_TARGET");
  std::string_view name = variable != nullptr ? variable : "";
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--targets") {
      list_targets(stdout);
      std::exit(0);
    }
    if (argument.starts_with("--target=")) {
      name = argument.substr(std::strlen("--target="));
      // libFuzzer starts others of itself with its own arguments alone.
      ::setenv("REPRISE_FUZZ_TARGET", name.data(), 1);
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
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
