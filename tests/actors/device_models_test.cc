// DeviceModels without the worker: loads end with an answer, and drops wait for the step that uses the model.

#include "actors/device/device_models.h"

#include <future>

#include "tests/actors/fake_model.h"
#include "tests/actors/worker_parts.h"

namespace reprise::actors {
namespace {

class DeviceModelsTest : public testing::Test {
 protected:
  using Loaded = AnswerBox<protocol::LoadArch::Reply>;
  using DroppedArch = AnswerBox<protocol::ArchDropped>;

  static WorkerSettings settings_with(const std::shared_ptr<FakeControl>& control) {
    WorkerSettings settings;
    settings.device_options.threads = 1;
    settings.make_model = fake_models(control);
    return settings;
  }

  void load(Loaded& answer) {
    std::promise<void> done;
    models_.load({.path = "none"}, answer.reply(), [&] { done.set_value(); });
    done.get_future().wait();
    models_.finish_load();
    ASSERT_TRUE(answer.answered());
  }
  protocol::ArchId load() {
    Loaded answer;
    load(answer);
    EXPECT_TRUE(answer.answered() && answer.answer().ok());
    return answer.answer()->arch;
  }
  /// Drops a model; `in_step`: the generation of the running step's.
  void drop(protocol::ArchId arch, DroppedArch& answer, std::uint32_t in_step = 0) {
    dropping_ = &answer;
    models_.drop(protocol::DropArch{arch}, answer.reply(), models_.find(in_step));
  }

  const std::shared_ptr<FakeControl> control_ = std::make_shared<FakeControl>();
  const WorkerSettings settings_ = settings_with(control_);
  WorkerFigures figures_;
  DeviceState state_{1 << 20};
  MemoryReclaimer memory_{state_, 1 << 20, {}, figures_, [](std::uint64_t, bool) {}};
  Admission admission_{state_, memory_, figures_, {}};
  const DroppedArch* dropping_ = nullptr;
  int freed_ = 0;
  DeviceModels models_{settings_, state_, memory_, admission_, figures_, [this] {
                         ++freed_;
                         EXPECT_FALSE(dropping_->answered()) << "the answer must find the memory free";
                       }};
};

TEST_F(DeviceModelsTest, ADropWaitsForTheStepOfItsModel) {
  const protocol::ArchId arch = load();
  DroppedArch answer;
  drop(arch, answer, arch.generation);
  EXPECT_FALSE(answer.answered());
  ASSERT_NE(models_.find(arch.generation), nullptr) << "the step uses it";
  models_.drop_deferred();
  EXPECT_TRUE(answer.answered());
  EXPECT_EQ(models_.find(arch.generation), nullptr);
  EXPECT_TRUE(state_.tables().empty());
  EXPECT_EQ(freed_, 1);
  models_.drop_deferred();
  EXPECT_EQ(freed_, 1) << "it is dropped once";
}

TEST_F(DeviceModelsTest, ADropDoesNotWaitForAnotherModelsStep) {
  const protocol::ArchId arch = load(), other = load();
  EXPECT_NE(arch.generation, other.generation);
  DroppedArch answer;
  drop(arch, answer, other.generation);
  EXPECT_TRUE(answer.answered());
  EXPECT_EQ(models_.find(arch.generation), nullptr);
  EXPECT_NE(models_.find(other.generation), nullptr);
}

TEST_F(DeviceModelsTest, ADropOfAnUnknownModelIsAnswered) {
  DroppedArch answer;
  drop({.generation = 1, .number = 1}, answer);
  ASSERT_TRUE(answer.answered());
  EXPECT_EQ(answer.answer().freed_bytes, 0U);
}

TEST_F(DeviceModelsTest, TheErrorOfALoadIsItsAnswer) {
  control_->refuse_to_load = true;
  Loaded answer;
  load(answer);
  EXPECT_EQ(fault_of(answer), ErrorKind::kBadJob);
  EXPECT_TRUE(models_.all().empty());
}

TEST_F(DeviceModelsTest, AnAdapterOfAnUnknownModelIsRefused) {
  AnswerBox<protocol::LoadAdapter::Reply> answer;
  models_.load_adapter({.arch = {.generation = 1, .number = 1}, .path = "none"}, answer.reply(), [] {});
  EXPECT_EQ(fault_of(answer), ErrorKind::kUnknown);
}

}  // namespace
}  // namespace reprise::actors
