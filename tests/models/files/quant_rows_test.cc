// Rows of quantized tensors as dequantized by another implementation; every ISA's kernels must match exactly.

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/json.h"
#include "gpu/kernels.h"
#include "models/files/gguf.h"
#include "tests/oracle_folder.h"

namespace reprise::models {
namespace {

Json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return Json::parse(text.str()).value();
}

/// Checks every row of the files in a folder; together they cover all formats.
void expect_rows_of_llama_cpp(const std::filesystem::path& folder) {
  constexpr std::string_view kEnding = ".rows.json";
  std::set<std::string> types;
  for (const std::filesystem::path& path : reprise::test::files_in(folder, std::string(kEnding))) {
    const std::string file = path.string();
    const Gguf gguf = Gguf::open(file.substr(0, file.size() - kEnding.size()) + ".gguf");
    const Json rows = read_json(path);
    for (const Json& row : *rows.find_array("rows")) {
      const std::string& name = *row.find_string("tensor");
      const StoredTensor* tensor = gguf.tensors().find(name);
      ASSERT_NE(tensor, nullptr) << name;
      ASSERT_EQ(info(tensor->type).name, *row.find_string("type"));
      types.insert(*row.find_string("type"));
      const gpu::WeightFormat* format = format_of(tensor->type);
      ASSERT_NE(format, nullptr) << *row.find_string("type");
      const std::size_t columns = tensor->shape.back();
      const gpu::WeightView view{.format = format,
                                 .rows = *element_count(tensor->shape) / columns,
                                 .columns = columns,
                                 .data = tensor->bytes.data()};
      const Json::Array& values = *row.find_array("values");
      ASSERT_EQ(values.size(), columns);
      for (const gpu::Isa isa : {gpu::Isa::kPlain, gpu::best_isa()}) {
        std::vector<float> y(columns);
        const auto index = static_cast<std::size_t>(row.find("row")->as_int());
        gpu::cpu_kernels(isa).format(*format).widen_row(view, index, y.data());
        for (std::size_t k = 0; k < columns; ++k) {
          ASSERT_EQ(y[k], static_cast<float>(values[k].as_double()))
              << name << ", " << format->name << ", row " << index << ", element " << k;
        }
      }
    }
  }
  EXPECT_GE(types.size(), 15U);
}

TEST(QuantRows, AreThoseOfLlamaCpp) {
  expect_rows_of_llama_cpp(reprise::test::data_folder() / "gguf");
}

TEST(QuantRows, OfWholeModelsAreThoseOfLlamaCpp) {
  const std::filesystem::path folder = reprise::test::oracle_folder() / "gguf";
  SKIP_WITHOUT(folder);
  expect_rows_of_llama_cpp(folder);
}

}  // namespace
}  // namespace reprise::models
