#include "tools/random_model/write.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/arch/config.h"
#include "models/files/json_place.h"
#include "tools/random_model/draws.h"
#include "tools/random_model/new_file.h"
#include "tools/random_model/random_blocks.h"

namespace reprise::tools {
namespace {

using models::ModelConfig;
using models::TensorSpec;

std::uint64_t elements_of(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : spec.shape) count *= size;
  return count;
}

/// The tensors of the folder: of several that it has as one, the one.
std::vector<TensorSpec> specs_in_folder(const ModelConfig& config) {
  std::vector<TensorSpec> out;
  std::set<std::string> seen;
  for (const TensorSpec& spec : config.tensors) {
    TensorSpec stored = spec;
    if (!spec.hf.names.empty()) stored.name = spec.hf.names.front();
    if (spec.hf.piece) stored.shape = spec.hf.piece->of;
    if (seen.insert(stored.name).second) out.push_back(std::move(stored));
  }
  return out;
}

std::string stored_name(const TensorSpec& spec) {
  return spec.name == "lm_head.weight" ? spec.name : "model." + spec.name;
}

std::string header_of(const std::vector<TensorSpec>& specs) {
  std::string out = "{";
  std::uint64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    if (offset > 0) out += ',';
    out += '"';
    out += stored_name(spec);
    out += R"(":{"dtype":"BF16","shape":[)";
    for (std::size_t i = 0; i < spec.shape.size(); ++i) {
      if (i > 0) out += ',';
      out += std::to_string(spec.shape[i]);
    }
    const std::uint64_t end = offset + 2 * elements_of(spec);
    out += R"(],"data_offsets":[)";
    out += std::to_string(offset);
    out += ',';
    out += std::to_string(end);
    out += "]}";
    offset = end;
  }
  out += "}";
  out.resize((out.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  return out;
}

void write_tensor(NewFile& file, const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed) {
  constexpr std::uint64_t kAtOnce = 1 << 19;
  Random random(seed, spec.name);
  const Draw draw = draw_for(spec, config);
  std::vector<std::uint16_t> values;
  for (std::uint64_t left = elements_of(spec); left > 0; left -= values.size()) {
    values.resize(std::min(left, kAtOnce));
    for (std::uint16_t& value : values) value = to_bf16(draw(random));
    file.write(values.data(), values.size() * sizeof(values[0]));
  }
}

}  // namespace

std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder) {
  const std::string text = config_json(shape);
  const ModelConfig config = ModelConfig::from_hf(models::JsonPlace::parse(text, "config.json"));
  const std::vector<TensorSpec> specs = specs_in_folder(config);
  std::filesystem::create_directories(folder);

  NewFile weights(folder / "model.safetensors");
  NewFile description(folder / "config.json");
  description.write(text.data(), text.size());
  const std::string header = header_of(specs);
  const std::uint64_t length = header.size();
  static_assert(std::endian::native == std::endian::little);
  weights.write(&length, sizeof(length));
  weights.write(header.data(), header.size());
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    write_tensor(weights, spec, config, seed);
    bytes += 2 * elements_of(spec);
  }
  description.finish();
  weights.finish();
  return bytes;
}

}  // namespace reprise::tools
