#pragma once
// Outside answers to hold the engine against: checkpoints with prompts, greedy continuations and logits.

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "models/files/json_place.h"
#include "models/files/safetensors.h"
#include "tests/models/oracle_folder.h"

namespace reprise::models {

struct OracleCase {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> greedy;
  std::vector<double> margin;
  std::vector<float> last;  // logits after the prompt
};

inline std::vector<std::int32_t> token_ids(const JsonPlace& list) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : list.integers()) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

inline std::vector<OracleCase> oracle_cases(const std::filesystem::path& folder) {
  std::vector<OracleCase> cases;
  const JsonPlace list = JsonPlace::read(folder / "cases.json").at("cases");
  const TensorSource logits = open_safetensors(folder / "logits.safetensors");
  for (std::size_t i = 0; i < list.size(); ++i) {
    OracleCase one{.prompt = token_ids(list.at(i).at("prompt")),
                   .greedy = token_ids(list.at(i).at("greedy")),
                   .margin = {},
                   .last = {}};
    const JsonPlace margins = list.at(i).at("margin");
    for (std::size_t k = 0; k < margins.size(); ++k) one.margin.push_back(margins.at(k).number());
    const StoredTensor* last = logits.find("case" + std::to_string(i) + ".last");
    one.last.resize(last->bytes.size() / sizeof(float));
    std::memcpy(one.last.data(), last->bytes.data(), last->bytes.size());
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace reprise::models
