#include "tools/lab/random_model/write_gguf.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <vector>

#include "models/arch/config.h"
#include "models/files/json_place.h"
#include "tools/lab/random_model/draws.h"
#include "tools/lab/random_model/gguf_header.h"
#include "tools/lab/random_model/new_file.h"
#include "tools/lab/random_model/random_blocks.h"

namespace reprise::tools {
namespace {

using models::DType;
using models::GgufLayout;
using models::ModelConfig;
using models::TensorSpec;

constexpr std::size_t kAtOnce = 1 << 20;  // bytes

/// A tensor as the file has it; `spec` is one that is, or is a piece of, it.
struct InFile {
  const TensorSpec* spec;
  std::string name;
  models::Shape shape;
  DType type;
  std::uint64_t bytes;
};

std::size_t layer_of(const std::string& name) {
  return name.starts_with("blk.") ? std::stoul(name.substr(4)) : 0;
}

/// As GGUF files have it: without dimensions of 1.
models::Shape shape_in_file(const TensorSpec& spec) {
  models::Shape out;
  for (const std::uint64_t size : spec.gguf.piece ? spec.gguf.piece->of : spec.shape) {
    if (size != 1) out.push_back(size);
  }
  if (out.empty()) out = {1};
  return out;
}

std::vector<InFile> tensors_of(const ModelConfig& config, const RandomShape& shape, const GgufTypes& types) {
  std::vector<InFile> out;
  std::set<std::string> seen;
  for (const TensorSpec& spec : config.tensors) {
    const std::string& name = spec.gguf.names.front();
    if (!seen.insert(name).second) continue;  // another piece of it
    const models::Shape in_file = shape_in_file(spec);
    const DType type = types.type_of({.name = name,
                                      .shape = in_file,
                                      .layer = layer_of(name),
                                      .layers = shape.layers,
                                      .is_head = spec.name == config.head + ".weight",
                                      .heads_per_kv = shape.heads / shape.kv_heads});
    out.push_back({&spec, name, in_file, type, *models::byte_size(type, in_file)});
  }
  return out;
}

/// As the file has what Hugging Face has as `value`.
float in_file(GgufLayout::Values values, float value) {
  switch (values) {
    case GgufLayout::Values::kSame:
      return value;
    case GgufLayout::Values::kPlusOne:
      return value + 1.0F;
    case GgufLayout::Values::kNegativeExp:
      return -std::exp(value);
  }
  return value;
}

void write_vector(NewFile& file, const InFile& tensor, const ModelConfig& config, Random& random) {
  const Draw draw = draw_for(*tensor.spec, config);
  std::vector<float> values(tensor.bytes / sizeof(float));
  for (float& value : values) value = in_file(tensor.spec->gguf.layout.values, draw(random));
  file.write(values.data(), tensor.bytes);
}

void write_matrix(NewFile& file, const InFile& tensor, const ModelConfig& config, Random& random) {
  const float deviation = scale_for(*tensor.spec, config);
  const std::size_t block = models::info(tensor.type).block_bytes;
  std::vector<std::byte> bytes;
  for (std::uint64_t left = tensor.bytes; left > 0; left -= bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(left, kAtOnce / block * block));
    random_blocks(tensor.type, deviation, random, bytes);
    file.write(bytes.data(), bytes.size());
  }
}

std::filesystem::path part_path(const std::filesystem::path& path, std::size_t part, std::size_t parts) {
  if (parts == 1) return path;
  char end[64];
  std::snprintf(end, sizeof end, "-%05zu-of-%05zu.gguf", part + 1, parts);
  return path.parent_path() / (path.stem().string() + end);
}

/// Tensors of one part.
void write_part(const std::filesystem::path& path, const GgufHeader& header, std::span<const InFile> tensors,
                const ModelConfig& config, std::uint64_t seed, bool hollow) {
  NewFile file(path);
  const std::string front = header.bytes();
  file.write(front.data(), front.size());
  for (const InFile& tensor : tensors) {
    Random random(seed, tensor.name);
    const bool is_matrix = tensor.shape.size() > 1 && tensor.name.find("ssm_conv1d") == std::string::npos;
    if (is_matrix && hollow) {
      file.skip(tensor.bytes);
    } else {
      (is_matrix ? write_matrix : write_vector)(file, tensor, config, random);
    }
    const std::string padding(
        (GgufHeader::kAlignment - tensor.bytes % GgufHeader::kAlignment) % GgufHeader::kAlignment, '\0');
    file.write(padding.data(), padding.size());
  }
  file.finish();
}

}  // namespace

std::uint64_t write_random_gguf(const RandomShape& shape, const GgufTypes& types, std::uint64_t seed,
                                const std::filesystem::path& path, std::size_t parts, bool hollow) {
  const ModelConfig config =
      ModelConfig::from_hf(models::JsonPlace::parse(config_json(shape), "config.json"));
  const std::vector<InFile> tensors = tensors_of(config, shape, types);
  if (parts < 1 || parts > tensors.size()) throw std::invalid_argument("a part must have a tensor");
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());

  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = tensors.size() * part / parts;
    const std::span<const InFile> own(tensors.data() + first, tensors.size() * (part + 1) / parts - first);
    GgufHeader header;
    if (part == 0) add_keys(header, shape, types.file_type());
    if (parts > 1) {
      header.u16("split.no", part);
      header.u16("split.count", parts);
      header.i32("split.tensors.count", tensors.size());
    }
    for (const InFile& tensor : own) {
      header.tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
      bytes += tensor.bytes;
    }
    write_part(part_path(path, part, parts), header, own, config, seed, hollow);
  }
  return bytes;
}

}  // namespace reprise::tools
