#include "tools/lab/random_model/write.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/arch/config.h"
#include "models/files/json_place.h"
#include "tools/lab/random_model/draws.h"
#include "tools/lab/random_model/new_file.h"
#include "tools/lab/random_model/random_blocks.h"

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

constexpr std::uint64_t kTile = 128;  // rows and columns of FP8 that share a scale

/// Tiles of such a matrix.
std::uint64_t tiles_of(const TensorSpec& spec) {
  return (spec.shape[0] + kTile - 1) / kTile * ((spec.shape[1] + kTile - 1) / kTile);
}
/// Which matrices a folder of FP8 has in it: those of layers, but small ones and routers.
bool is_fp8(const TensorSpec& spec) {
  return spec.shape.size() == 2 && spec.shape[0] >= kTile && spec.shape[1] >= kTile &&
         spec.name.starts_with("layers.") && spec.name.ends_with(".weight") &&
         !spec.name.ends_with("mlp.gate.weight");
}

/// The header of a safetensors file, tensor by tensor.
class Header {
 public:
  void add(const std::string& name, const char* type, const std::vector<std::uint64_t>& shape,
           std::uint64_t bytes) {
    if (bytes_ > 0) text_ += ',';
    text_ += '"' + name + R"(":{"dtype":")" + type + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += std::to_string(shape[i]);
    }
    text_ += R"(],"data_offsets":[)" + std::to_string(bytes_) + ',' + std::to_string(bytes_ + bytes) + "]}";
    bytes_ += bytes;
  }
  std::string finish() {
    text_ += "}";
    text_.resize((text_.size() + 7) / 8 * 8, ' ');  // the data begins aligned
    return text_;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::string text_ = "{";
  std::uint64_t bytes_ = 0;
};

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

/// The matrix, and then the scales of its tiles, which are not all alike.
void write_fp8(NewFile& file, const TensorSpec& spec, const ModelConfig& config, std::uint64_t seed) {
  Random random(seed, spec.name);
  const Draw draw = draw_for(spec, config);
  const std::uint64_t across = (spec.shape[1] + kTile - 1) / kTile;
  std::vector<float> scales(tiles_of(spec));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = (1 + static_cast<float>(i % 7) / 8) / 512;
  }
  std::vector<std::uint8_t> row(spec.shape[1]);
  for (std::uint64_t i = 0; i < spec.shape[0]; ++i) {
    for (std::uint64_t k = 0; k < row.size(); ++k) {
      row[k] = to_e4m3(draw(random) / scales[i / kTile * across + k / kTile]);
    }
    file.write(row.data(), row.size());
  }
  file.write(scales.data(), scales.size() * sizeof(scales[0]));
}

std::string with_fp8(std::string config) {
  config.insert(
      config.find('{') + 1,
      R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]},)");
  return config;
}

}  // namespace

std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder, FolderType type) {
  const std::string text = type == FolderType::kFp8 ? with_fp8(config_json(shape)) : config_json(shape);
  const ModelConfig config = ModelConfig::from_hf(models::JsonPlace::parse(text, "config.json"));
  const std::vector<TensorSpec> specs = specs_in_folder(config);
  std::filesystem::create_directories(folder);

  NewFile weights(folder / "model.safetensors");
  NewFile description(folder / "config.json");
  description.write(text.data(), text.size());
  const auto in_fp8 = [&](const TensorSpec& spec) { return type == FolderType::kFp8 && is_fp8(spec); };
  Header tensors;
  for (const TensorSpec& spec : specs) {
    const std::string name = stored_name(spec);
    if (!in_fp8(spec)) {
      tensors.add(name, "BF16", spec.shape, 2 * elements_of(spec));
      continue;
    }
    tensors.add(name, "F8_E4M3", spec.shape, elements_of(spec));
    tensors.add(name + "_scale_inv", "F32",
                {(spec.shape[0] + kTile - 1) / kTile, (spec.shape[1] + kTile - 1) / kTile},
                tiles_of(spec) * sizeof(float));
  }
  const std::string header = tensors.finish();
  const std::uint64_t length = header.size();
  static_assert(std::endian::native == std::endian::little);
  weights.write(&length, sizeof(length));
  weights.write(header.data(), header.size());
  for (const TensorSpec& spec : specs) {
    (in_fp8(spec) ? write_fp8 : write_tensor)(weights, spec, config, seed);
  }
  description.finish();
  weights.finish();
  return tensors.bytes();
}

}  // namespace reprise::tools
