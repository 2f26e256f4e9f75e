#include "models/files/quant_scheme.h"

#include <algorithm>

#include "models/files/json_location.h"

namespace reprise::models {
namespace {

constexpr std::int64_t kMaxTile = 1 << 20;

std::optional<JsonLocation> place_of(const JsonLocation& config) {
  if (auto found = config.find("quantization_config")) return found;
  const auto text = config.find("text_config");
  return text ? text->find("quantization_config") : std::nullopt;
}

void need_four_bits(const JsonLocation& quant, const std::string& name) {
  const std::int64_t bits = quant.integer_or("bits", 4);
  if (bits != 4) quant.fail(name + " of " + std::to_string(bits) + " bits is not read; 4 bits are");
}

void read_fp8(const JsonLocation& quant, QuantScheme& out) {
  const std::string kind = quant.text_or("fmt", "e4m3");
  if (kind != "e4m3") quant.fail("fp8 of the kind " + kind + " is not read; e4m3 is");
  const auto tile = quant.find("weight_block_size");
  if (!tile) return;
  const std::vector<std::int64_t> sizes = tile->integers();
  if (sizes.size() != 2 || *std::min_element(sizes.begin(), sizes.end()) < 1 ||
      *std::max_element(sizes.begin(), sizes.end()) > kMaxTile) {
    tile->fail("expected [rows, columns]");
  }
  out.tile_rows = static_cast<std::size_t>(sizes[0]);
  out.tile_columns = static_cast<std::size_t>(sizes[1]);
}

void read_awq(const JsonLocation& quant, QuantScheme& out) {
  const std::string version = quant.text_or("version", "gemm");
  out.name = "awq " + version;
  if (version != "gemm" && version != "GEMM") quant.fail(out.name + " is not read; awq gemm is");
  need_four_bits(quant, out.name);
}

void read_gptq(const JsonLocation& quant, QuantScheme& out) {
  const std::string format = quant.text_or("checkpoint_format", "gptq");
  out.name = "gptq in the format " + format;
  if (format != "gptq" && format != "gptq_v2") quant.fail(out.name + " is not read; gptq and gptq_v2 are");
  need_four_bits(quant, out.name);
  out.zeros_less_one = format == "gptq";
}

void read_packed(const JsonLocation& quant, QuantScheme& out) {
  const std::string format = quant.text_or("format", "?");
  out.name = "compressed-tensors in the format " + format;
  constexpr std::string_view kRead[] = {"pack-quantized", "float-quantized", "naive-quantized",
                                        "mixed-precision"};  // each tensor's names tell its format
  if (std::find(std::begin(kRead), std::end(kRead), format) == std::end(kRead)) {
    quant.fail(out.name + " is not read; pack-quantized and float-quantized are");
  }
  const auto groups = quant.find("config_groups");
  for (std::size_t i = 0; groups && i < groups->size(); ++i) {
    const JsonLocation group = groups->value_at(i);
    const auto weights = group.is(JsonLocation::Kind::kObject) ? group.find("weights") : std::nullopt;
    const auto tile = weights ? weights->find("block_structure") : std::nullopt;
    if (!tile) continue;
    const std::vector<std::int64_t> sizes = tile->integers();
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > kMaxTile || sizes[1] > kMaxTile) {
      tile->fail("expected [rows, columns]");
    }
    out.tile_rows = static_cast<std::size_t>(sizes[0]);
    out.tile_columns = static_cast<std::size_t>(sizes[1]);
  }
}

}  // namespace

std::optional<QuantScheme> QuantScheme::read(const JsonLocation& config) {
  const std::optional<JsonLocation> quant = place_of(config);
  if (!quant) return std::nullopt;
  const std::string method = quant->text_or("quant_method", "?");
  QuantScheme out;
  out.name = method;
  if (method == "fp8") {
    out.method = Method::kFp8;
    read_fp8(*quant, out);
  } else if (method == "awq") {
    out.method = Method::kAwq;
    read_awq(*quant, out);
  } else if (method == "gptq") {
    out.method = Method::kGptq;
    read_gptq(*quant, out);
  } else if (method == "compressed-tensors") {
    out.method = Method::kPacked;
    read_packed(*quant, out);
  } else {
    quant->fail("checkpoints quantised by " + method +
                " are not read; fp8, awq, gptq and compressed-tensors are");
  }
  return out;
}

}  // namespace reprise::models
