// Adapters for a tiny model: a PEFT folder (adapter_config.json, a zero byte, adapter_model.safetensors) and
// a GGUF file.
#include "models/adapters/adapter.h"

#include "base/check.h"
#include "models/arch/config.h"
#include "models/files/json_location.h"
#include "models/files/load_error.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/targets.h"
#include "tests/models/tiny_model.h"

namespace reprise::fuzz {
namespace {

using models::Adapter;
using models::AdapterMatrix;
using models::AdapterPart;

void check_matrix(const AdapterMatrix& matrix) {
  REPRISE_CHECK(matrix.data != nullptr && matrix.view.data == matrix.data.get(), "a matrix without values");
  REPRISE_CHECK(matrix.view.rows > 0 && matrix.view.columns > 0, "a matrix of no size");
}

bool opens(const std::filesystem::path& path) {
  static const models::ModelConfig kConfig = models::ModelConfig::from_hf(models::JsonLocation::parse(
      models::test::TinyModel({.type = "llama", .layers = 1}).config_json(), "config.json"));
  try {
    const Adapter adapter = Adapter::open(path, kConfig);
    REPRISE_CHECK(!adapter.parts().empty(), "an adapter that changes nothing");
    for (const AdapterPart& part : adapter.parts()) {
      check_matrix(part.a);
      check_matrix(part.b);
      REPRISE_CHECK(part.a.view.rows == part.b.view.columns, "the two matrices of an adapter differ in rank");
      REPRISE_CHECK(part.rank() <= adapter.max_rank(), "a rank over the largest");
    }
    return true;
  } catch (const models::LoadError& error) {
    REPRISE_CHECK(!error.file().empty() && !error.reason().empty(), "a refusal without a reason");
    return false;
  }
}

}  // namespace

bool fuzz_peft_adapter(std::string_view input) {
  const std::size_t zero = std::min(input.find('\0'), input.size());
  const auto config = scratch_file("peft/adapter_config.json", input.substr(0, zero));
  scratch_file("peft/adapter_model.safetensors", input.substr(std::min(zero + 1, input.size())));
  return opens(config.parent_path());
}

bool fuzz_gguf_adapter(std::string_view input) {
  return opens(scratch_file("adapter.gguf", input));
}

}  // namespace reprise::fuzz
