#pragma once
// MarkFinder: finds the first of a few marks in text that comes character by character. It keeps the
// characters that may be the start of a mark, fewer than the longest one has.
//
// No mark may be the start of another one.
//
// Threading: one thread at a time.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::protocol {

class MarkFinder {
 public:
  static constexpr int kNone = -1;

  MarkFinder() = default;
  explicit MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  /// The mark that `c` completes, or kNone. Appends to `passed` what is now known to be part of no mark.
  int put(char c, std::string& passed) {
    held_ += c;
    while (!held_.empty()) {
      bool possible = false;
      for (std::size_t i = 0; i < marks_.size(); ++i) {
        if (!std::string_view(marks_[i]).starts_with(held_)) continue;
        if (marks_[i].size() == held_.size()) {
          held_.clear();
          return static_cast<int>(i);
        }
        possible = true;
      }
      if (possible) break;
      passed += held_.front();
      held_.erase(0, 1);
    }
    return kNone;
  }

  const std::string& held() const { return held_; }
  void clear() { held_.clear(); }

 private:
  std::vector<std::string> marks_;
  std::string held_;
};

}  // namespace reprise::protocol
