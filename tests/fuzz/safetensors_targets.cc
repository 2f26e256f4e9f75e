// Safetensors: one file, and an index over two shards that are always there.
#include "models/files/safetensors.h"

#include "models/files/load_error.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/models/files/loader_invariants.h"

namespace reprise::fuzz {
namespace {

template <class Open>
void expect_sound(Open open) {
  try {
    REPRISE_CHECK(models::test::fault_of(open()).empty(), "a file that is not what it says");
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
  }
}

}  // namespace

void fuzz_safetensors(std::string_view input) {
  const auto file = scratch_file("model.safetensors", input);
  expect_sound([&] { return models::open_safetensors(file); });
}

void fuzz_safetensors_index(std::string_view input) {
  static const bool kShards = [] {
    for (const char* name : {"a", "b"}) {
      models::test::SafetensorsWriter shard;
      shard.tensor(name, "F32", {1}, models::test::raw(1.0f));
      scratch_file(std::string("shards/").append(name).append(".safetensors"), shard.bytes());
    }
    return true;
  }();
  static_cast<void>(kShards);
  const auto index = scratch_file("shards/model.safetensors.index.json", input);
  expect_sound([&] { return models::open_safetensors_index(index); });
}

}  // namespace reprise::fuzz
