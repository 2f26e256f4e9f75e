#pragma once
// Reference outputs: model files with prompts, greedy continuations and logits.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "models/files/json_location.h"
#include "models/files/safetensors.h"
#include "tests/models/oracle_folder.h"

namespace reprise::models {

struct OracleCase {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> greedy;
  std::vector<double> margin;
  std::vector<float> last;   // after the prompt
  std::vector<float> all{};  // after each token of the prompt; usually empty
};

inline std::vector<std::int32_t> token_ids(const JsonLocation& list) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : list.integers()) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

inline std::vector<OracleCase> oracle_cases(const std::filesystem::path& folder) {
  std::vector<OracleCase> cases;
  const JsonLocation list = JsonLocation::read(folder / "cases.json").at("cases");
  const TensorSource logits = open_safetensors(folder / "logits.safetensors");
  for (std::size_t i = 0; i < list.size(); ++i) {
    OracleCase one{.prompt = token_ids(list.at(i).at("prompt")),
                   .greedy = token_ids(list.at(i).at("greedy")),
                   .margin = {},
                   .last = {}};
    const JsonLocation margins = list.at(i).at("margin");
    for (std::size_t k = 0; k < margins.size(); ++k) one.margin.push_back(margins.at(k).number());
    const auto read = [&](const char* what, std::vector<float>& to) {
      const StoredTensor* rows = logits.find("case" + std::to_string(i) + what);
      if (rows == nullptr) return;
      to.resize(rows->bytes.size() / sizeof(float));
      std::memcpy(to.data(), rows->bytes.data(), rows->bytes.size());
    };
    read(".last", one.last);
    read(".all", one.all);
    EXPECT_FALSE(one.last.empty()) << folder << " has no logits of case " << i;
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace reprise::models
