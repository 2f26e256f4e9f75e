// The supervisor, with fake models on a real device worker: one load for concurrent requests, and recovery
// from failures within limits.

#include <gtest/gtest.h>

#include <future>

#include "actors/model_supervisor.h"
#include "tests/actors/fake_model.h"
#include "tests/eventually.h"
#include "tests/source_folder.h"
#include "tools/reliability/faults.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::ErrorKind;
using State = protocol::ModelCard::State;

/// Records the models and prefixes whose states are to be freed.
struct Unloaded {
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::string>> states;  // guarded by mutex
};
class UnloadedTier : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::FetchState, protocol::StoreState, protocol::ForgetStates,
                                    protocol::UnloadStates>;
  explicit UnloadedTier(std::shared_ptr<Unloaded> unloaded) : unloaded_(std::move(unloaded)) {}
  protocol::Fetched on(protocol::FetchState) { return {}; }
  void on(protocol::StoreState) {}
  void on(protocol::ForgetStates) {}
  void on(protocol::UnloadStates job) {
    const std::lock_guard lock(unloaded_->mutex);
    unloaded_->states.emplace_back(job.model, job.prefix);
  }

 private:
  const std::shared_ptr<Unloaded> unloaded_;
};

class SupervisorContract : public testing::Test {
 protected:
  void start(std::uint32_t max_reloads = 3) {
    EngineOptions options;
    options.worker.device = "cpu";
    options.worker.device_options.threads = 1;
    options.worker.state_bytes = 1 << 20;
    options.worker.faults = faults_;
    options.worker.make_model = fake_models(control_);
    options.max_reloads = max_reloads;
    options.log = log_;
    supervisor_ =
        system_.spawn<ModelSupervisor>({.placement = runtime::Placement::own_thread(),
                                        .on_failure = runtime::OnFailure::restart(
                                            ModelSupervisor::kMaxRestarts, ModelSupervisor::kRestartWindow)},
                                       options, directory_, board_, requests_, restarts_,
                                       protocol::TierRef(system_.spawn<UnloadedTier>({}, unloaded_)));
  }
  ~SupervisorContract() override {
    control_->hold_loads = false;
    control_->release();
  }

  static ModelSpec spec(const std::string& name = "m") {
    ModelSpec spec;
    spec.name = name;
    spec.path = source_folder() / "tests/data/models/qwen3_5_text";  // for its token names
    return spec;
  }
  LoadModel::Reply load(const std::string& name = "m") {
    auto loaded = supervisor_.ask_blocking(LoadModel{spec(name)}, 30s);
    EXPECT_TRUE(loaded.ok()) << loaded.error().describe();
    return std::move(*loaded);
  }
  std::future<LoadModel::Reply> load_meanwhile(const std::string& name = "m") {
    return std::async(std::launch::async, [this, name] { return load(name); });
  }
  std::optional<State> state(const std::string& name = "m") const {
    const auto entry = directory_->find(name);
    return entry ? std::optional(entry->card.state) : std::nullopt;
  }
  std::shared_ptr<const ServedModel> served(const std::string& name = "m") const {
    const auto entry = directory_->find(name);
    return entry ? entry->model : nullptr;
  }
  /// Returns true once another model instance is served.
  bool replaced(const std::shared_ptr<const ServedModel>& before) const {
    return eventually([&] {
      const auto now = served();
      return now != nullptr && now != before;
    });
  }

  /// Computes a prompt on the model; returns its fault, if any.
  std::optional<ErrorKind> compute(const ServedModel& model) {
    const std::uint64_t ticket = ++ticket_;
    const auto opened = model.worker.ask_blocking(
        protocol::OpenSequence{.arch = model.arch.arch, .ticket = ticket, .prompt_tokens = 10}, 20s);
    if (!opened.ok()) return ErrorKind::kCanceled;
    if (!opened->ok()) return opened->error().kind;
    const auto prefilled = model.worker.ask_blocking(
        protocol::Prefill{
            .sequence = (*opened)->sequence, .tokens = share_tokens(TokenList(10, 1)), .end = 10},
        20s);
    model.worker.tell(protocol::CloseSequence{model.arch.arch, ticket});
    if (!prefilled.ok()) return ErrorKind::kCanceled;
    if (!prefilled->ok()) return prefilled->error().kind;
    return std::nullopt;
  }
  template <class A>
  std::size_t count_of() const {
    std::size_t count = 0;
    for (const runtime::ExecutorPtr& executor : system_.core()->executors()) {
      executor->for_each_resident(
          [&](runtime::Cell& cell) { count += std::strcmp(cell.type().name, A::kName) == 0; });
    }
    return count;
  }
  void break_a_step(const ServedModel& model) {
    faults_->inject({.kind = Fault::Kind::kFailedStep});
    EXPECT_EQ(compute(model), ErrorKind::kDeviceFailed);
  }

  const std::shared_ptr<FakeControl> control_ = std::make_shared<FakeControl>();
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  const std::shared_ptr<ModelDirectory> directory_ = std::make_shared<ModelDirectory>();
  const std::shared_ptr<DeviceMetrics> board_ = std::make_shared<DeviceMetrics>();
  const std::shared_ptr<ActiveRequests> requests_ = std::make_shared<ActiveRequests>();
  const std::shared_ptr<Restarts> restarts_ = std::make_shared<Restarts>(0);
  const std::shared_ptr<Unloaded> unloaded_ = std::make_shared<Unloaded>();
  std::function<void(const std::string&)> log_{};
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<ModelSupervisor> supervisor_;
  std::atomic<std::uint64_t> ticket_{0};
};

TEST_F(SupervisorContract, ConcurrentLoadsOfAModelShareOneLoad) {
  start();
  control_->hold_loads = true;
  std::vector<std::future<LoadModel::Reply>> asking;
  for (int i = 0; i < 8; ++i) asking.push_back(load_meanwhile());
  ASSERT_TRUE(eventually([&] { return control_->loads == 1; }));
  EXPECT_EQ(state(), State::kLoading);
  EXPECT_EQ(served(), nullptr);
  control_->hold_loads = false;
  for (auto& one : asking) EXPECT_TRUE(one.get().ok());
  EXPECT_EQ(control_->loads, 1U);
  EXPECT_EQ(state(), State::kReady);
  EXPECT_TRUE(load().ok()) << "and one that is loaded is there at once";
  EXPECT_EQ(control_->loads, 1U);
  EXPECT_EQ(compute(*served()), std::nullopt);
}

TEST_F(SupervisorContract, FailedLoadReportsItsReasonAndCanBeRetried) {
  start();
  control_->refuse_to_load = true;
  const auto refused = load();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the test refuses"), std::string::npos) << refused.error().message;
  EXPECT_EQ(state(), State::kFailed);
  EXPECT_NE(directory_->find("m")->detail.find("the test refuses"), std::string::npos);
  control_->refuse_to_load = false;
  EXPECT_TRUE(load().ok());
  EXPECT_EQ(compute(*served()), std::nullopt);
}

TEST_F(SupervisorContract, FailedStepReloadsModelAsAnotherGeneration) {
  start();
  ASSERT_TRUE(load().ok());
  const auto before = served();
  break_a_step(*before);
  ASSERT_TRUE(replaced(before));
  EXPECT_NE(served()->arch.arch.generation, before->arch.arch.generation);
  EXPECT_EQ(served()->worker, before->worker) << "the worker goes on";
  EXPECT_EQ(served()->registry, before->registry) << "and so does the registry";
  EXPECT_EQ(compute(*served()), std::nullopt);
  EXPECT_EQ(compute(*before), ErrorKind::kUnknown) << "ids of the past are of nothing";
}

TEST_F(SupervisorContract, ModelThatFailsTooOftenNeedsAnExplicitLoad) {
  start(1);
  ASSERT_TRUE(load().ok());
  const auto first = served();
  break_a_step(*first);
  ASSERT_TRUE(replaced(first));
  break_a_step(*served());
  ASSERT_TRUE(eventually([&] { return state() == State::kFailed; }));
  EXPECT_NE(directory_->find("m")->detail.find("failed too often"), std::string::npos);
  EXPECT_TRUE(load().ok());
  EXPECT_EQ(compute(*served()), std::nullopt);
}

TEST_F(SupervisorContract, AWorkerThatEndsIsReplacedAndItsModelsComeBack) {
  start();
  ASSERT_TRUE(load("m").ok());
  ASSERT_TRUE(load("other").ok());
  const auto before = served("m");
  before->worker.stop();
  ASSERT_TRUE(replaced(before));
  EXPECT_NE(served("m")->worker, before->worker);
  ASSERT_TRUE(
      eventually([&] { return served("other") != nullptr && served("other")->worker != before->worker; }));
  EXPECT_EQ(served("other")->worker, served("m")->worker);
  EXPECT_EQ(compute(*served("m")), std::nullopt);
  EXPECT_EQ(restarts_->devices.total(), 1U);
}

TEST_F(SupervisorContract, ARegistryThatFailedIsBoundAgain) {
  start();
  ASSERT_TRUE(load().ok());
  const auto model = served();
  crash(*model->registry.cell());
  ASSERT_TRUE(eventually([&] { return restarts_->registries.total() == 1; }));
  EXPECT_EQ(served(), model) << "the model is served all the while";
  const auto announced = model->registry.ask_blocking(
      protocol::Announce{.flight = 1, .name_space = "", .prompt = share_tokens(TokenList(10, 1))}, 20s);
  ASSERT_TRUE(announced.ok());
  EXPECT_TRUE(eventually([&] {  // once it knows the new generation
    const auto found = model->registry.ask_blocking(
        protocol::Lookup{.flight = 1, .sequence = {.generation = model->arch.arch.generation, .number = 1}},
        20s);
    return found.ok() && found->reason == protocol::MissReason::kNeverSeen;
  }));
}

TEST_F(SupervisorContract, ARegistryThatFailsTooOftenFailsItsModel) {
  start();
  ASSERT_TRUE(load().ok());
  const auto model = served();
  for (std::uint32_t i = 0; i <= PrefixRegistry::kMaxRestarts; ++i) {
    crash(*model->registry.cell());
  }
  ASSERT_TRUE(eventually([&] { return state() == State::kFailed; }));
  EXPECT_NE(directory_->find("m")->detail.find("cache failed too often"), std::string::npos);
  EXPECT_TRUE(load().ok()) << "and may be loaded again";
  EXPECT_NE(served()->registry, model->registry);
}

TEST_F(SupervisorContract, ARegistryThatDiesDuringALoadIsReplaced) {
  const auto crashed = std::make_shared<std::atomic<bool>>(false);
  log_ = [this, crashed](const std::string& line) {  // on the supervisor's thread, before the adapters
    if (line.find("is loaded on") == std::string::npos || crashed->exchange(true)) return;
    for (std::uint32_t i = 0; i <= PrefixRegistry::kMaxRestarts; ++i) crash_all<PrefixRegistry>(system_);
    EXPECT_TRUE(eventually([&] { return count_of<PrefixRegistry>() == 0; }));
  };
  start();
  ModelSpec with_adapter = spec();
  with_adapter.adapters.push_back({.name = "a", .path = "/there is none"});
  const auto loaded = supervisor_.ask_blocking(LoadModel{with_adapter}, 30s);
  ASSERT_TRUE(loaded.ok() && loaded->ok());
  EXPECT_TRUE(*crashed);
  const auto model = served();
  ASSERT_NE(model, nullptr);
  EXPECT_FALSE(model->registry.stopped());
  EXPECT_EQ(control_->loads, 2U);
  EXPECT_EQ(compute(*model), std::nullopt);
}

TEST_F(SupervisorContract, UnloadingFreesTheStatesInHostMemory) {
  start();
  const auto unload = [&](const std::string& name) {
    EXPECT_TRUE(*supervisor_.ask_blocking(UnloadModel{name}, 20s));
  };
  const auto freed = [&] {
    const std::lock_guard lock(unloaded_->mutex);
    return unloaded_->states;
  };
  ASSERT_TRUE(load().ok());
  const std::uint64_t identity = served()->arch.identity;
  unload("m");
  ASSERT_TRUE(eventually([&] { return freed().size() == 1; }));
  EXPECT_EQ(freed()[0], std::make_pair(identity, std::string()));
  ASSERT_TRUE(load("m").ok() && load("other").ok());
  unload("m");
  unload("other");
  ASSERT_TRUE(eventually([&] { return freed().size() >= 2; }));
  EXPECT_EQ(freed().size(), 2U) << "while another name served it, they stayed";
}

TEST_F(SupervisorContract, UnloadingLeavesNothingOnTheDevice) {
  start();
  EXPECT_FALSE(*supervisor_.ask_blocking(UnloadModel{"m"}, 20s)) << "there is no such model";
  ASSERT_TRUE(load().ok());
  const auto model = served();
  ASSERT_EQ(compute(*model), std::nullopt);
  EXPECT_TRUE(*supervisor_.ask_blocking(UnloadModel{"m"}, 20s));
  EXPECT_EQ(state(), std::nullopt);
  EXPECT_EQ(compute(*model), ErrorKind::kUnknown);
  EXPECT_TRUE(eventually([&] { return model->registry.stopped(); }));
  const protocol::OperatorRef worker(model->worker.cell());  // a request cannot ask this
  const auto memory = worker.ask_blocking(protocol::QueryMemory{}, 20s);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->used_bytes, 0U);
}

TEST_F(SupervisorContract, FailedSupervisorReloadsItsModels) {
  start();
  ASSERT_TRUE(load("m").ok());
  ASSERT_TRUE(load("other").ok());
  const auto before = served("m");
  crash(*supervisor_.cell());
  ASSERT_TRUE(replaced(before));
  ASSERT_TRUE(eventually([&] { return state("other") == State::kReady; }));
  EXPECT_EQ(compute(*served("m")), std::nullopt);
  EXPECT_TRUE(eventually([&] { return before->worker.stopped(); })) << "its children ended with it";
}

}  // namespace
}  // namespace reprise::actors
