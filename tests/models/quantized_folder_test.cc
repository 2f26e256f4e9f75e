// Hugging Face folders in common quantization schemes: written element by element from the scheme's
// definition, read back and compared with the values. Damaged and unsupported folders must be refused by
// name.

#include <algorithm>
#include <numeric>

#include "gpu/kernels.h"
#include "models/model.h"
#include "models/model_files.h"
#include "models/weight_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::raw;
using test::SafetensorsWriter;
using test::TempDir;
using test::TinyModel;
using test::TinyTensor;

constexpr std::size_t kGroup = 32;  // columns per scale
constexpr std::size_t kHidden = 64;
constexpr std::size_t kIntermediate = 160;  // two tiles of FP8, five groups

std::string widths(const std::string& quantization) {
  return "\"quantization_config\":{" + quantization + "},";
}

float f16_value(std::uint16_t bits) {
  return widen_f16(bits);
}

/// Value of an FP8 e4m3 element: sign, 4 bits of exponent, 3 of mantissa, bias 7, no infinities.
float e4m3_value(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return static_cast<float>((bits & 0x80) != 0 ? -size : size);
}

/// Writes a matrix's tensors and returns its values.
using Write =
    std::function<std::vector<float>(SafetensorsWriter& out, const std::string& base, std::size_t rows,
                                     std::size_t columns, std::mt19937_64& random)>;

struct Scheme {
  std::string name;
  std::string config;  // quantization_config
  DType type;
  Write write;
};

/// 4-bit elements with zero points and scales: value = (q - zero) * scale.
struct Int4Matrix {
  Int4Matrix(std::size_t rows_, std::size_t columns_, std::mt19937_64& random, bool act_order)
      : rows(rows_), columns(columns_), groups(columns_ / kGroup), group_of(columns_) {
    for (std::size_t k = 0; k < columns; ++k) group_of[k] = static_cast<std::int32_t>(k / kGroup);
    if (act_order) std::shuffle(group_of.begin(), group_of.end(), random);
    for (std::size_t i = 0; i < rows * columns; ++i) q.push_back(static_cast<std::uint32_t>(random() % 16));
    for (std::size_t i = 0; i < rows * groups; ++i) {
      zero.push_back(static_cast<std::uint32_t>(1 + random() % 15));
      scale.push_back(static_cast<std::uint16_t>(0x2000 + random() % 0x800));  // f16, about 0.01
    }
  }
  std::uint32_t q_at(std::size_t n, std::size_t k) const { return q[n * columns + k]; }
  std::vector<float> values(bool has_zeros = true) const {
    std::vector<float> out;
    for (std::size_t n = 0; n < rows; ++n) {
      for (std::size_t k = 0; k < columns; ++k) {
        const std::size_t at = n * groups + static_cast<std::size_t>(group_of[k]);
        const int minus = has_zeros ? static_cast<int>(zero[at]) : 8;
        out.push_back(static_cast<float>(static_cast<int>(q_at(n, k)) - minus) * f16_value(scale[at]));
      }
    }
    return out;
  }
  /// Scales transposed to [groups, rows].
  std::string scales_by_group() const {
    std::string out;
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t n = 0; n < rows; ++n) out += raw(scale[n * groups + g]);
    }
    return out;
  }

  std::size_t rows, columns, groups;
  std::vector<std::int32_t> group_of;
  std::vector<std::uint32_t> q;      // [rows, columns]
  std::vector<std::uint32_t> zero;   // [rows, groups]
  std::vector<std::uint16_t> scale;  // [rows, groups]
};

std::vector<float> write_awq(SafetensorsWriter& out, const std::string& base, std::size_t rows,
                             std::size_t columns, std::mt19937_64& random) {
  const Int4Matrix matrix(rows, columns, random, false);
  const std::size_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto words = [&](std::size_t lines, auto value) {  // f(line, row / 8), [lines, rows / 8]
    std::string bytes;
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t n = 0; n < rows; n += 8) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) word |= value(line, n + order[i]) << (4 * i);
        bytes += raw(word);
      }
    }
    return bytes;
  };
  out.tensor(base + ".qweight", "I32", {columns, rows / 8},
             words(columns, [&](std::size_t k, std::size_t n) { return matrix.q_at(n, k); }));
  out.tensor(
      base + ".qzeros", "I32", {matrix.groups, rows / 8},
      words(matrix.groups, [&](std::size_t g, std::size_t n) { return matrix.zero[n * matrix.groups + g]; }));
  out.tensor(base + ".scales", "F16", {matrix.groups, rows}, matrix.scales_by_group());
  return matrix.values();
}

Write write_gptq(std::uint32_t less, bool act_order) {
  return [=](SafetensorsWriter& out, const std::string& base, std::size_t rows, std::size_t columns,
             std::mt19937_64& random) {
    const Int4Matrix matrix(rows, columns, random, act_order);
    std::string words;
    for (std::size_t k = 0; k < columns; k += 8) {
      for (std::size_t n = 0; n < rows; ++n) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) word |= matrix.q_at(n, k + i) << (4 * i);
        words += raw(word);
      }
    }
    std::string zeros;
    for (std::size_t g = 0; g < matrix.groups; ++g) {
      for (std::size_t n = 0; n < rows; n += 8) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i)
          word |= (matrix.zero[(n + i) * matrix.groups + g] - less) << (4 * i);
        zeros += raw(word);
      }
    }
    std::string groups;
    for (const std::int32_t group : matrix.group_of) groups += raw(group);
    out.tensor(base + ".qweight", "I32", {columns / 8, rows}, words);
    out.tensor(base + ".qzeros", "I32", {matrix.groups, rows / 8}, zeros);
    out.tensor(base + ".scales", "F16", {matrix.groups, rows}, matrix.scales_by_group());
    out.tensor(base + ".g_idx", "I32", {columns}, groups);
    return matrix.values();
  };
}

Write write_packed(bool has_zeros) {
  return [=](SafetensorsWriter& out, const std::string& base, std::size_t rows, std::size_t columns,
             std::mt19937_64& random) {
    const Int4Matrix matrix(rows, columns, random, false);
    std::string words;
    for (std::size_t n = 0; n < rows; ++n) {
      for (std::size_t k = 0; k < columns; k += 8) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) word |= matrix.q_at(n, k + i) << (4 * i);
        words += raw(word);
      }
    }
    std::string zeros;  // packed along the rows
    for (std::size_t n = 0; n < rows; n += 8) {
      for (std::size_t g = 0; g < matrix.groups; ++g) {
        std::uint32_t word = 0;
        for (std::size_t i = 0; i < 8 && n + i < rows; ++i)
          word |= matrix.zero[(n + i) * matrix.groups + g] << (4 * i);
        zeros += raw(word);
      }
    }
    std::string scales;
    for (const std::uint16_t scale : matrix.scale) scales += raw(scale);
    out.tensor(base + ".weight_packed", "I32", {rows, columns / 8}, words);
    out.tensor(base + ".weight_scale", "F16", {rows, matrix.groups}, scales);
    out.tensor(base + ".weight_shape", "I64", {2},
               raw(static_cast<std::int64_t>(rows)) + raw(static_cast<std::int64_t>(columns)));
    if (has_zeros) out.tensor(base + ".weight_zero_point", "I32", {(rows + 7) / 8, matrix.groups}, zeros);
    return matrix.values(has_zeros);
  };
}

/// One scale per `tile_rows` x `tile_columns` elements; 0: the whole dimension.
Write write_fp8(std::size_t tile_rows, std::size_t tile_columns, const char* scale_name) {
  return [=](SafetensorsWriter& out, const std::string& base, std::size_t rows, std::size_t columns,
             std::mt19937_64& random) {
    const std::size_t high = tile_rows == 0 ? rows : tile_rows;
    const std::size_t wide = tile_columns == 0 ? columns : tile_columns;
    const std::size_t down = (rows + high - 1) / high;
    const std::size_t across = (columns + wide - 1) / wide;
    std::vector<float> scales;
    for (std::size_t i = 0; i < down * across; ++i) {
      scales.push_back(std::ldexp(static_cast<float>(128 + random() % 128), -16));  // representable in bf16
    }
    std::string bytes;
    std::vector<float> values;
    for (std::size_t n = 0; n < rows; ++n) {
      for (std::size_t k = 0; k < columns; ++k) {
        auto element = static_cast<std::uint8_t>(random());
        if ((element & 0x7f) == 0x7f) element ^= 1;  // would be NaN
        bytes += static_cast<char>(element);
        values.push_back(e4m3_value(element) * scales[n / high * across + k / wide]);
      }
    }
    out.tensor(base + ".weight", "F8_E4M3", {rows, columns}, bytes);
    std::vector<std::uint64_t> shape = {down, across};
    if (tile_rows == 0) shape = {};
    out.tensor(base + scale_name, "BF16", shape, test::raw_bf16(scales));
    return values;
  };
}

std::vector<Scheme> schemes() {
  const std::string fp8 = R"("quant_method":"fp8","activation_scheme":"dynamic")";
  const std::string packed = R"("quant_method":"compressed-tensors","format":"pack-quantized")";
  return {
      {"awq", R"("quant_method":"awq","bits":4,"group_size":32,"version":"gemm","zero_point":true)",
       DType::kInt4, write_awq},
      {"gptq", R"("quant_method":"gptq","bits":4,"group_size":32,"desc_act":false)", DType::kInt4,
       write_gptq(1, false)},
      {"gptq2", R"("quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"gptq_v2")",
       DType::kInt4, write_gptq(0, false)},
      {"actorder", R"("quant_method":"gptq","bits":4,"group_size":32,"desc_act":true)", DType::kInt4,
       write_gptq(1, true)},
      {"packed", packed, DType::kInt4, write_packed(false)},
      {"zeros", packed, DType::kInt4, write_packed(true)},
      {"tiles", fp8 + R"(,"weight_block_size":[128,128])", DType::kF8E4M3,
       write_fp8(128, 128, ".weight_scale_inv")},
      {"rows", R"("quant_method":"compressed-tensors","format":"float-quantized")", DType::kF8E4M3Rows,
       write_fp8(1, 0, ".weight_scale")},
      {"whole", fp8, DType::kF8E4M3Rows, write_fp8(0, 0, ".weight_scale")},
  };
}

/// A folder with a small Llama whose projections are quantized, except for the first layer's attention, and a
/// folder with the same values in F32.
class QuantizedFolder {
 public:
  explicit QuantizedFolder(const Scheme& scheme, const std::string& left_out = "") {
    TinyModel model({.type = "llama",
                     .hidden = kHidden,
                     .layers = 2,
                     .vocab = 40,
                     .intermediate = kIntermediate,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 16,
                     .attention_bias = true});
    std::mt19937_64 random(7);
    SafetensorsWriter quantized;
    SafetensorsWriter widened;
    for (auto& [name, tensor] : model.tensors) {
      const std::string stored = name == "lm_head.weight" ? name : "model." + name;
      if (is_quantized(name)) {
        const std::string base = stored.substr(0, stored.size() - 7);
        SafetensorsWriter dropped;
        const bool leave_out = !left_out.empty() && name.find(left_out) != std::string::npos;
        tensor.values =
            scheme.write(leave_out ? dropped : quantized, base, tensor.shape[0], tensor.shape[1], random);
      } else {
        quantized.tensor(stored, "BF16", tensor.shape, test::raw_bf16(tensor.values));
      }
      widened.tensor(stored, "F32", tensor.shape, test::raw_f32(tensor.values));
      expected[name] = tensor.values;
    }
    dir.write("config.json", model.config_json(widths(scheme.config)));
    dir.write("model.safetensors", quantized.bytes());
    twin.write("config.json", model.config_json());
    twin.write("model.safetensors", widened.bytes());
  }

  static bool is_quantized(const std::string& name) {
    return name.ends_with("_proj.weight") && name.find("layers.0.self_attn") == std::string::npos;
  }

  TempDir dir, twin;
  std::map<std::string, std::vector<float>> expected;
};

std::vector<float> widened(const Tensor& tensor) {
  const gpu::WeightView view = view_of(tensor);
  const gpu::FormatKernels& format = gpu::cpu_kernels(gpu::Isa::kPlain).format(*view.format);
  std::vector<float> out(view.rows * view.columns);
  std::vector<float> row(view.columns);
  for (std::size_t n = 0; n < view.rows; ++n) {
    format.widen_row(view, n, row.data());
    for (std::size_t k = 0; k < view.columns; ++k) {
      out[n * view.columns + (tensor.column_order.empty() ? k : tensor.column_order[k])] = row[k];
    }
  }
  return out;
}

std::vector<float> logits_of(const std::filesystem::path& path, gpu::Compute compute) {
  gpu::Threads threads(1);
  ComputeOptions options;
  options.compute = compute;
  const auto model = load_on_cpu(path, options, threads);
  gpu::StateStore store(model->state().sizes(), {.pages = 4, .slots = 1});
  std::optional<gpu::Sequence> sequence = store.open();
  EXPECT_TRUE(sequence.has_value() && sequence->reserve(20));
  std::vector<TokenId> tokens(20);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 40);
  const Slice slice{.sequence = &*sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
  const std::span<const float> logits = model->forward({&slice, 1});
  return {logits.begin(), logits.end()};
}

TEST(QuantizedFolder, HasTheNumbersOfItsDefinition) {
  for (const Scheme& scheme : schemes()) {
    const QuantizedFolder folder(scheme);
    const ModelFiles files = ModelFiles::open(folder.dir.path());
    files.validate();
    for (const auto& [name, expected] : folder.expected) {
      const Tensor tensor = files.tensor(name, ColumnOrder::kAny);
      EXPECT_EQ(widened(tensor), expected) << scheme.name << ": " << name;
      EXPECT_EQ(files.stored_type(name), QuantizedFolder::is_quantized(name) ? scheme.type : DType::kBF16)
          << scheme.name << ": " << name;
      EXPECT_EQ(tensor.column_order.empty(),
                scheme.name != "actorder" || !QuantizedFolder::is_quantized(name));
    }
    // Weights stored in the layout kernels read are not copied.
    if (scheme.type != DType::kInt4) {
      EXPECT_EQ(files.tensor("layers.1.mlp.up_proj.weight").owned, nullptr) << scheme.name;
    }
  }
}

TEST(QuantizedFolder, ComputesWhatItsWideTwinDoes) {
  for (const Scheme& scheme : schemes()) {
    const QuantizedFolder folder(scheme);
    const std::vector<float> found = logits_of(folder.dir.path(), gpu::Compute::kF32);
    const std::vector<float> expected = logits_of(folder.twin.path(), gpu::Compute::kF32);
    ASSERT_EQ(found.size(), expected.size());
    if (scheme.name != "actorder") {
      EXPECT_EQ(found, expected) << scheme.name;  // bitwise: the same sums in the same order
    }
    const std::vector<float> fast = logits_of(folder.dir.path(), gpu::Compute::kAuto);
    float largest = 0;
    for (const float logit : expected) largest = std::max(largest, std::abs(logit));
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-4 * largest) << scheme.name;
      ASSERT_NEAR(fast[i], expected[i], 0.1 * largest) << scheme.name;
    }
  }
}

TEST(QuantizedFolder, RefusesByNameWhatIsNotThere) {
  for (const Scheme& scheme : schemes()) {
    const QuantizedFolder folder(scheme, "layers.1.mlp.down_proj");
    EXPECT_LOAD_ERROR(ModelFiles::open(folder.dir.path()), "model.layers.1.mlp.down_proj.weight: is missing");
  }
}

TEST(QuantizedFolder, ReorderedColumnGroupsAreRefused) {
  const std::vector<Scheme> all = schemes();
  const auto scheme =
      std::find_if(all.begin(), all.end(), [](const Scheme& s) { return s.name == "actorder"; });
  const QuantizedFolder folder(*scheme);
  const ModelFiles files = ModelFiles::open(folder.dir.path());
  EXPECT_LOAD_ERROR(files.tensor("layers.1.mlp.down_proj.weight"),
                    "down_proj.qweight: its groups are not in the order of its columns");
}

/// A folder with one matrix written by hand and the others plain.
class OneMatrix {
 public:
  OneMatrix(const std::string& config,
            const std::function<void(SafetensorsWriter&, const std::string&)>& write) {
    const TinyModel model({.type = "llama",
                           .hidden = kHidden,
                           .layers = 1,
                           .vocab = 40,
                           .intermediate = kIntermediate,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 16});
    SafetensorsWriter out;
    for (const auto& [name, tensor] : model.tensors) {
      if (name == "layers.0.mlp.down_proj.weight") continue;
      out.tensor(name == "lm_head.weight" ? name : "model." + name, "BF16", tensor.shape,
                 test::raw_bf16(tensor.values));
    }
    write(out, "model.layers.0.mlp.down_proj");
    dir.write("config.json", model.config_json(widths(config)));
    dir.write("model.safetensors", out.bytes());
  }
  TempDir dir;
};

TEST(QuantizedFolder, RefusesSchemesByName) {
  const auto nothing = [](SafetensorsWriter&, const std::string&) {};
  const auto expect = [&](const std::string& config, const char* message) {
    const OneMatrix folder(config, nothing);
    EXPECT_LOAD_ERROR(ModelFiles::open(folder.dir.path()), message);
  };
  expect(R"("quant_method":"bitsandbytes")", "checkpoints quantised by bitsandbytes are not read");
  expect(R"("quant_method":"modelopt","quant_algo":"NVFP4")", "modelopt");
  expect(R"("quant_method":"gptq","bits":8)", "gptq in the format gptq of 8 bits is not read");
  expect(R"("quant_method":"gptq","bits":4,"checkpoint_format":"marlin")", "gptq in the format marlin");
  expect(R"("quant_method":"awq","version":"gemv")", "awq gemv");
  expect(R"("quant_method":"fp8","fmt":"e5m2")", "e5m2");
  expect(R"("quant_method":"fp8","weight_block_size":[128])", "weight_block_size: expected [rows, columns]");
  expect(R"("quant_method":"compressed-tensors","format":"marlin-24")",
         "compressed-tensors in the format marlin-24");
  expect(R"("quant_method":"compressed-tensors","format":"nvfp4-pack-quantized")", "nvfp4-pack-quantized");
}

TEST(QuantizedFolder, RefusesTensorsThatDoNotFit) {
  const std::string packed = R"("quant_method":"compressed-tensors","format":"pack-quantized")";
  const std::string gptq = R"("quant_method":"gptq","bits":4)";
  const std::string fp8 = R"("quant_method":"fp8","weight_block_size":[128,128])";
  const auto zeros = [](std::size_t bytes) { return std::string(bytes, '\0'); };
  const auto shape = raw(std::int64_t{kHidden}) + raw(std::int64_t{kIntermediate});
  const auto expect = [&](const std::string& config, const char* message,
                          const std::function<void(SafetensorsWriter&, const std::string&)>& write) {
    const OneMatrix folder(config, write);
    EXPECT_LOAD_ERROR(ModelFiles::open(folder.dir.path()).tensor("layers.0.mlp.down_proj.weight"), message);
  };
  expect(packed, "down_proj.weight_packed: NVFP4 or MXFP4",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".weight_packed", "U8", {kHidden, kIntermediate / 2},
                      zeros(kHidden * kIntermediate / 2));
         });
  expect(packed, "down_proj.weight_packed: int8", [&](SafetensorsWriter& out, const std::string& base) {
    out.tensor(base + ".weight_packed", "I32", {kHidden, kIntermediate / 4}, zeros(kHidden * kIntermediate));
    out.tensor(base + ".weight_shape", "I64", {2}, shape);
  });
  expect(packed, "down_proj.weight: a weight of I8", [&](SafetensorsWriter& out, const std::string& base) {
    out.tensor(base + ".weight", "I8", {kHidden, kIntermediate}, zeros(kHidden * kIntermediate));
  });
  expect(packed, "down_proj.weight_scale: 10 groups of 160 columns",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".weight_packed", "I32", {kHidden, kIntermediate / 8},
                      zeros(kHidden * kIntermediate / 2));
           out.tensor(base + ".weight_shape", "I64", {2}, shape);
           out.tensor(base + ".weight_scale", "BF16", {kHidden, 10}, zeros(kHidden * 20));
         });
  expect(packed, "down_proj.weight_shape: is missing", [&](SafetensorsWriter& out, const std::string& base) {
    out.tensor(base + ".weight_packed", "I32", {kHidden, kIntermediate / 8},
               zeros(kHidden * kIntermediate / 2));
  });
  expect(packed, "down_proj.weight_scale: has scales of more than 16 bits",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".weight_packed", "I32", {kHidden, kIntermediate / 8},
                      zeros(kHidden * kIntermediate / 2));
           out.tensor(base + ".weight_shape", "I64", {2}, shape);
           out.tensor(base + ".weight_scale", "F32", {kHidden, 5},
                      test::raw_f32(std::vector<float>(kHidden * 5, 0.1F)));
         });
  expect(gptq, "down_proj.g_idx: names a group that has no scales",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".qweight", "I32", {kIntermediate / 8, kHidden},
                      zeros(kHidden * kIntermediate / 2));
           out.tensor(base + ".scales", "F16", {5, kHidden}, zeros(kHidden * 10));
           std::string groups;
           for (std::size_t k = 0; k < kIntermediate; ++k) groups += raw(k == 9 ? -1 : 0);
           out.tensor(base + ".g_idx", "I32", {kIntermediate}, groups);
         });
  expect(gptq, "down_proj.qweight: expected shape [64, 160], found [64, 128]",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".qweight", "I32", {16, kHidden}, zeros(16 * kHidden * 4));
           out.tensor(base + ".scales", "F16", {1, kHidden}, zeros(kHidden * 2));
         });
  expect(fp8, "down_proj.weight_scale: is missing", [&](SafetensorsWriter& out, const std::string& base) {
    out.tensor(base + ".weight", "F8_E4M3", {kHidden, kIntermediate}, zeros(kHidden * kIntermediate));
  });
  expect(fp8, "down_proj.weight_scale_inv: expected shape [1, 2], found [2, 2]",
         [&](SafetensorsWriter& out, const std::string& base) {
           out.tensor(base + ".weight", "F8_E4M3", {kHidden, kIntermediate}, zeros(kHidden * kIntermediate));
           out.tensor(base + ".weight_scale_inv", "BF16", {2, 2}, zeros(8));
         });
}

TEST(QuantizedFolder, RefusesScalesAndElementsThatAreNoNumbers) {
  const std::string fp8 = R"("quant_method":"fp8")";
  const auto write = [](char element, float scale) {
    return [=](SafetensorsWriter& out, const std::string& base) {
      out.tensor(base + ".weight", "F8_E4M3", {kHidden, kIntermediate},
                 std::string(kHidden * kIntermediate, element));
      out.tensor(base + ".weight_scale", "F32", {}, raw(scale));
    };
  };
  const OneMatrix good(fp8, write(0x40, 1.0F));
  ModelFiles::open(good.dir.path()).validate();
  const OneMatrix element(fp8, write(0x7f, 1.0F));
  EXPECT_LOAD_ERROR(ModelFiles::open(element.dir.path()).validate(),
                    "down_proj.weight: has a weight that is");
  const OneMatrix scale(fp8, write(0x40, INFINITY));
  EXPECT_LOAD_ERROR(ModelFiles::open(scale.dir.path()).validate(),
                    "down_proj.weight_scale: has a weight that is");
}

}  // namespace
}  // namespace reprise::models
