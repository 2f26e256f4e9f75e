#include "runtime/interop/asio_executor.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>

#include "runtime/system.h"

namespace reprise::runtime {

namespace {

constexpr int kRoundsPerHandler = 4;  // rounds before the host's other handlers get their turn

class AsioExecutor : public Executor {
 public:
  AsioExecutor(std::shared_ptr<SystemCore> core, boost::asio::io_context& loop)
      : Executor(std::move(core)), loop_(loop), timer_(std::make_unique<boost::asio::steady_timer>(loop)) {
    announce_sleep();
  }

  void finish() override {
    {
      std::lock_guard lock(mutex_);
      finish_ = true;
    }
    if (cancel_sleep()) wake();
    help();
  }

  void help() override {
    if (!loop_.stopped()) return;
    std::unique_lock running(running_, std::try_to_lock);
    if (running) run_rounds();
  }

  bool wait_ended(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [this] { return ended_; });
  }

  void join_or_leave() override {
    std::unique_lock running(running_, std::try_to_lock);
    if (running) timer_.reset();  // the loop may be destroyed soon
  }

 private:
  void wake() override {
    boost::asio::post(loop_, [self = ExecutorPtr(this), this] { run(); });
  }

  /// Called by the one thread that turned the doorbell to awake; the mutex only excludes help().
  void run() {
    std::unique_lock running(running_);
    if (!run_rounds()) return;
    running.unlock();
    wake();
  }

  /// Returns true if more rounds are needed.
  bool run_rounds() {
    const Presence presence(*this);
    for (int i = 0; i < kRoundsPerHandler; ++i) {
      if (run_round()) continue;
      if (may_end()) {
        end();
        return false;
      }
      const TimePoint until = next_timer();
      set_timer(until);
      const Sleep announced = announce_sleep();
      if (announced != Sleep::kAsleep) return announced == Sleep::kStayAwake;
      // The timer's handler does nothing while this executor is awake. If it ran before the announcement, on
      // another thread of the loop, the deadline has passed by now, and nothing else would wake the executor.
      return until <= Clock::now() && cancel_sleep();
    }
    return true;
  }

  bool may_end() {
    std::lock_guard lock(mutex_);
    return finish_ && !ended_ && population() == 0 && try_seal();
  }

  void end() {
    close();
    timer_.reset();
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  /// Called before sleep is announced: after that another thread may run this executor.
  void set_timer(TimePoint next) {
    if (timer_ == nullptr || next == armed_for_) return;
    armed_for_ = next;
    if (next == TimePoint::max()) {
      timer_->cancel();  // a pending wait would keep the host's run() from returning
      return;
    }
    timer_->expires_at(next);
    timer_->async_wait([self = ExecutorPtr(this), this](const boost::system::error_code& error) {
      if (!error && cancel_sleep()) {
        armed_for_ = TimePoint::max();
        run();
      }
    });
  }

  boost::asio::io_context& loop_;
  std::mutex running_;
  std::unique_ptr<boost::asio::steady_timer> timer_;  // accessed by the thread that runs the executor
  TimePoint armed_for_ = TimePoint::max();            // accessed by the thread that runs the executor

  std::mutex mutex_;
  std::condition_variable changed_;
  bool finish_ = false;  // guarded by mutex_
  bool ended_ = false;   // guarded by mutex_
};

}  // namespace

ExecutorPtr adopt_io_context(System& system, boost::asio::io_context& loop) {
  ExecutorPtr executor = ExecutorPtr::adopt(new AsioExecutor(system.core(), loop));
  system.core()->add_executor(executor);
  return executor;
}

}  // namespace reprise::runtime
