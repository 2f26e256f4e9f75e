// Safetensors: one file, and an index over two existing shards.
#include "models/files/safetensors.h"

#include "models/files/load_error.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/models/files/loader_invariants.h"
#include "tests/models/tiny_model.h"

namespace reprise::fuzz {
namespace {

using models::test::TinyModel;

template <class Open>
bool is_sound(Open open) {
  try {
    REPRISE_CHECK(models::test::fault_of(open()).empty(), "a file that is not what it says");
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
    return false;
  }
}

}  // namespace

bool fuzz_safetensors(std::string_view input) {
  static const auto kConfig =
      scratch_file("weights/config.json", TinyModel({.type = "llama", .layers = 1}).config_json());
  const auto file = scratch_file("weights/model.safetensors", input);
  is_sound([&] { return models::ModelFiles::open(file.parent_path()); });
  return is_sound([&] { return models::open_safetensors(file); });
}

bool fuzz_safetensors_index(std::string_view input) {
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
  return is_sound([&] { return models::open_safetensors_index(index); });
}

}  // namespace reprise::fuzz
