#include "tools/random_model/write.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "models/arch/config.h"
#include "models/files/json_place.h"

namespace reprise::tools {
namespace {

using models::ModelConfig;
using models::TensorSpec;

std::uint64_t elements_of(const TensorSpec& spec) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : spec.shape) count *= size;
  return count;
}

/// splitmix64
class Random {
 public:
  Random(std::uint64_t seed, const std::string& name) : state_(seed) {
    for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    next();
  }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers.
  float normal() {
    const std::uint64_t bits = next();
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum * 0x1p-16F - 2.0F) * 1.7320508F;
  }

 private:
  std::uint64_t state_;
};

using Draw = std::function<float(Random&)>;

Draw normal_around(float mean, float scale) {
  return [=](Random& random) { return mean + scale * random.normal(); };
}

/// How the elements of a tensor are drawn.
Draw draw_for(const TensorSpec& spec, const ModelConfig& config) {
  const auto ends = [&](std::string_view end) { return spec.name.ends_with(end); };
  if (ends("A_log")) return [](Random& random) { return std::log(1.0F + 15.0F * random.uniform()); };
  if (ends("dt_bias")) {
    // What softplus turns into steps from 0.001 to 0.1, evenly in their logarithm.
    return [](Random& random) {
      const float step = std::exp(std::log(0.001F) + random.uniform() * std::log(100.0F));
      return std::log(std::expm1(step));
    };
  }
  if (ends(".bias")) return normal_around(0.0F, 0.01F);
  if (ends("linear_attn.norm.weight")) return normal_around(1.0F, 0.05F);
  if (ends("norm.weight")) return normal_around(1.0F - config.final_norm.kind.offset, 0.05F);
  if (ends("embed_tokens.weight") || ends("lm_head.weight")) return normal_around(0.0F, 0.02F);
  float scale = 1.0F / std::sqrt(static_cast<float>(spec.shape.back()));
  if (ends("o_proj.weight") || ends("out_proj.weight") || ends("down_proj.weight")) {
    scale /= std::sqrt(2.0F * static_cast<float>(config.layers.size()));  // they add to the residual stream
  }
  return normal_around(0.0F, scale);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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

/// A file that is removed again unless it was finished.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path) : path_(std::move(path)), part_(path_.string() + ".part") {
    if (std::filesystem::exists(path_)) throw std::runtime_error(path_.string() + " is there already");
    file_ = std::fopen(part_.c_str(), "wb");
    if (file_ == nullptr) fail();
  }
  ~NewFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(part_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, std::size_t size) {
    if (std::fwrite(data, 1, size, file_) != size) fail();
  }
  void finish() {
    if (std::fflush(file_) != 0) fail();
    std::filesystem::rename(part_, path_);
    std::fclose(file_);
    file_ = nullptr;
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(part_ + ": " + std::strerror(errno)); }

  std::filesystem::path path_;
  std::string part_;
  std::FILE* file_ = nullptr;
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

}  // namespace

std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder) {
  const std::string text = config_json(shape);
  const ModelConfig config = ModelConfig::from_hf(models::JsonPlace::parse(text, "config.json"));
  const std::vector<TensorSpec>& specs = config.tensors;
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
