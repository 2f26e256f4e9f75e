// The built-in model must produce the outputs of its architecture's original library.

#include <gtest/gtest.h>

#include <algorithm>

#include "models/files/json_location.h"
#include "models/model.h"
#include "models/text/chat_template_source.h"
#include "models/text/tokenizer_load.h"
#include "tests/models/oracle.h"
#include "tests/sanitized.h"
#include "tests/source_folder.h"

namespace reprise::models {
namespace {

const std::filesystem::path kFolder = source_folder() / "models" / "builtin";

// The reference sums in another order: if the two best logits are closer than this, either may win.
constexpr double kNearTie = 2e-3;

TEST(BuiltinModel, SaysWhatTheReferenceSays) {
  gpu::Threads threads(2);
  const std::unique_ptr<Model> model =
      load_on_cpu(kFolder, {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32}, threads);
  const JsonLocation cases =
      JsonLocation::read(source_folder() / "tests/data/builtin/greedy.json").at("cases");
  ASSERT_EQ(cases.size(), 50U);
  gpu::StateStore store(model->state().sizes(), {.pages = 64, .slots = 1});
  std::size_t steps = 0;
  std::size_t ties = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rounds(50)); ++i) {
    const std::vector<TokenId> greedy = token_ids(cases.at(i).at("greedy"));
    const JsonLocation margins = cases.at(i).at("margin");
    std::vector<TokenId> tokens = token_ids(cases.at(i).at("prompt"));
    std::optional<gpu::Sequence> sequence = store.open();
    ASSERT_TRUE(sequence->reserve(tokens.size() + greedy.size()));
    for (std::size_t step = 0; step < greedy.size(); ++step, ++steps) {
      const Slice slice{.sequence = &*sequence, .tokens = tokens};
      const std::span<const float> logits = model->forward({&slice, 1});
      const auto best = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
      tokens = {greedy[step]};
      if (margins.at(step).number() < kNearTie) {
        ++ties;
      } else {
        ASSERT_EQ(best, greedy[step]) << "case " << i << ", step " << step;
      }
    }
  }
  EXPECT_GT(steps, static_cast<std::size_t>(rounds(300)));
  EXPECT_LE(ties, steps / 50);
}

TEST(BuiltinModel, ComesWithVocabularyAndTemplate) {
  const Tokenizer tokenizer = load_tokenizer(kFolder);
  const std::vector<TokenId> ids = tokenizer.encode("<|im_start|>user\nMy name is Marcus.<|im_end|>\n");
  EXPECT_EQ(tokenizer.decode(ids), "<|im_start|>user\nMy name is Marcus.<|im_end|>\n");
  ASSERT_TRUE(tokenizer.eos().has_value());
  EXPECT_EQ(*tokenizer.eos(), tokenizer.encode("<|im_end|>").front());
  const std::optional<std::string> chat_template = load_chat_template(kFolder);
  ASSERT_TRUE(chat_template.has_value());
  EXPECT_NE(chat_template->find("enable_thinking"), std::string::npos);
}

}  // namespace
}  // namespace reprise::models
