#include "tools/lab/replay_rivals.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"

namespace reprise::tools {
namespace {

using Id = std::uint64_t;

/// Those that look at every entry and take the one that scores lowest.
class ScoringRival : public Rival {
 public:
  void made(const RivalEntry& entry) override { entries_[entry.id] = entry; }
  void used(Id id, Time now) override {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    count_use(found->second, now);
    found->second.last_use = now;
  }
  Id victim(Time now) override {
    REPRISE_CHECK(!entries_.empty(), "the policy was asked to evict and has no entries");
    prepare(now);
    const RivalEntry* least = nullptr;
    double least_score = 0;
    for (const auto& [id, entry] : entries_) {
      const double score = value(entry, now);
      const bool before =
          least == nullptr || score < least_score ||
          (score == least_score && std::pair(entry.last_use, id) < std::pair(least->last_use, least->id));
      if (!before) continue;
      least = &entry;
      least_score = score;
    }
    const Id id = least->id;
    entries_.erase(id);
    return id;
  }

 protected:
  virtual void prepare(Time) {}
  virtual void count_use(RivalEntry& entry, Time) { ++entry.uses; }
  virtual double value(const RivalEntry& entry, Time now) const = 0;

  std::unordered_map<Id, RivalEntry> entries_;
};

class Belady : public ScoringRival {
 public:
  explicit Belady(const Future& future) : future_(future) {}

 private:
  double value(const RivalEntry& entry, Time) const override {
    return -static_cast<double>(future_.next_use(entry.place));
  }
  const Future& future_;
};

class DecayingLfu : public ScoringRival {
 public:
  void made(const RivalEntry& entry) override {
    ScoringRival::made(entry);
    weight_[entry.id] = 1;
  }

 private:
  static double left_after(Time time) {
    return std::exp2(-std::chrono::duration<double>(time).count() / 600);
  }
  void count_use(RivalEntry& entry, Time now) override {
    double& weight = weight_[entry.id];
    weight = weight * left_after(now - entry.last_use) + 1;
  }
  double value(const RivalEntry& entry, Time now) const override {
    return weight_.at(entry.id) * left_after(now - entry.last_use);
  }
  std::unordered_map<Id, double> weight_;
};

class FlopAware : public ScoringRival {
 private:
  // Of a 7B: its weights once for each token, and attention to all tokens before it.
  static double efficiency(const RivalEntry& entry) {
    constexpr double kWeights = 14e9, kAttention = 2.6e5;
    const double from = entry.tokens - entry.own;
    const double flops = kWeights * entry.own + kAttention * entry.own * (from + entry.tokens) / 2;
    return flops / entry.bytes;
  }
  void prepare(Time now) override {
    oldest_ = Time(1);
    best_ = 1e-9;
    for (const auto& [id, entry] : entries_) {
      oldest_ = std::max(oldest_, now - entry.last_use);
      best_ = std::max(best_, efficiency(entry));
    }
  }
  double value(const RivalEntry& entry, Time now) const override {
    const double recency =
        1 - static_cast<double>((now - entry.last_use).count()) / static_cast<double>(oldest_.count());
    return recency + efficiency(entry) / best_;
  }
  Time oldest_{1};
  double best_ = 1;
};

class Sieve : public Rival {
 public:
  void made(const RivalEntry& entry) override {
    queue_.push_front({entry.id, false}), where_[entry.id] = queue_.begin();
  }
  void used(Id id, Time) override {
    if (const auto found = where_.find(id); found != where_.end()) found->second->visited = true;
  }
  Id victim(Time) override {
    REPRISE_CHECK(!queue_.empty(), "the policy was asked to evict and has no entries");
    const auto step = [this] { hand_ = hand_ == queue_.begin() ? queue_.end() : std::prev(hand_); };
    for (;;) {
      if (hand_ == queue_.end()) hand_ = std::prev(queue_.end());
      if (!hand_->visited) break;
      hand_->visited = false;
      step();
    }
    const Id id = hand_->id;
    const auto gone = hand_;
    step();
    queue_.erase(gone);
    where_.erase(id);
    return id;
  }

 private:
  struct Seat {
    Id id;
    bool visited;
  };
  std::list<Seat> queue_;  // the newest first
  std::list<Seat>::iterator hand_ = queue_.end();
  std::unordered_map<Id, std::list<Seat>::iterator> where_;
};

class S3Fifo : public Rival {
 public:
  void made(const RivalEntry& entry) override {
    all_[entry.id] = {entry.place, 0};
    (ghosts_.count(entry.place) > 0 ? main_ : small_).push_back(entry.id);
  }
  void used(Id id, Time) override {
    if (const auto found = all_.find(id); found != all_.end())
      found->second.uses = std::min(found->second.uses + 1, 3);
  }
  Id victim(Time) override {
    REPRISE_CHECK(!all_.empty(), "the policy was asked to evict and has no entries");
    for (;;) {
      if (!small_.empty() && (small_.size() * 10 > all_.size() || main_.empty())) {
        const Id id = take(small_);
        if (all_[id].uses > 0) {
          all_[id].uses = 0;
          main_.push_back(id);
          continue;
        }
        remember(all_[id].place);
        all_.erase(id);
        return id;
      }
      const Id id = take(main_);
      if (all_[id].uses > 0) {
        --all_[id].uses;
        main_.push_back(id);
        continue;
      }
      all_.erase(id);
      return id;
    }
  }

 private:
  struct Known {
    std::uint64_t place;
    int uses;
  };
  static Id take(std::deque<Id>& queue) {
    const Id id = queue.front();
    queue.pop_front();
    return id;
  }
  void remember(std::uint64_t place) {
    if (!ghosts_.insert(place).second) return;
    ghost_order_.push_back(place);
    while (ghost_order_.size() > std::max<std::size_t>(all_.size(), 16)) {
      ghosts_.erase(ghost_order_.front());
      ghost_order_.pop_front();
    }
  }
  std::unordered_map<Id, Known> all_;
  std::deque<Id> small_, main_;
  std::unordered_set<std::uint64_t> ghosts_;
  std::deque<std::uint64_t> ghost_order_;
};

}  // namespace

std::unique_ptr<Rival> make_rival(const std::string& name, const Future& future) {
  if (name == "belady") return std::make_unique<Belady>(future);
  if (name == "lfu") return std::make_unique<DecayingLfu>();
  if (name == "sieve") return std::make_unique<Sieve>();
  if (name == "s3fifo") return std::make_unique<S3Fifo>();
  if (name == "flops") return std::make_unique<FlopAware>();
  return nullptr;
}

const std::vector<std::string>& rival_names() {
  static const std::vector<std::string> kNames = {"lfu", "sieve", "s3fifo", "flops", "belady"};
  return kNames;
}

}  // namespace reprise::tools
