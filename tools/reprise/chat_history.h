#pragma once
// The messages of a chat, and what its commands do to them.
//
// Invariant: behind an optional system message user and assistant take turns; a user message stands last only
// while its reply is being made.
//
// Threading: one owner.

#include <string>
#include <utility>

#include "base/json.h"

namespace reprise::tools {

class ChatHistory {
 public:
  /// Empty: none.
  void set_system(std::string text) { system_ = std::move(text); }
  void ask(std::string text) { turns_.push_back(Json{{"role", "user"}, {"content", std::move(text)}}); }
  void answer(Json message) { turns_.push_back(std::move(message)); }
  void clear() { turns_.clear(); }

  bool empty() const { return turns_.empty(); }

  /// Takes the last reply back. False: there is none.
  bool drop_reply() {
    if (turns_.empty()) return false;
    turns_.pop_back();
    return true;
  }
  /// Takes the last question back, and its reply if it has one. False: there is none.
  bool drop_turn() {
    if (turns_.size() % 2 == 0 && !drop_reply()) return false;
    turns_.pop_back();
    return true;
  }

  /// Takes over a conversation as messages() gives it. Says what is wrong with it where it is none, and changes nothing.
  std::string load(const Json& messages) {
    if (!messages.is_array()) return "'messages' is not an array";
    std::string system;
    Json::Array turns;
    for (const Json& message : messages.as_array()) {
      const std::string* role = message.is_object() ? message.find_string("role") : nullptr;
      const std::string* content = message.is_object() ? message.find_string("content") : nullptr;
      const bool first = turns.empty() && system.empty();
      if (role != nullptr && content != nullptr && *role == "system" && first) {
        system = *content;
        continue;
      }
      const char* const expected = turns.size() % 2 == 0 ? "user" : "assistant";
      if (role == nullptr || *role != expected || (content == nullptr && turns.size() % 2 == 0)) {
        return "message " + std::to_string(turns.size() + (system.empty() ? 0 : 1)) +
               " is not a text message of the " + expected;
      }
      turns.push_back(message);
    }
    if (turns.size() % 2 != 0) return "the last message has no reply";
    system_ = std::move(system);
    turns_ = std::move(turns);
    return {};
  }

  /// As a template takes them.
  Json messages() const {
    Json all = Json::array();
    if (!system_.empty()) all.push_back(Json{{"role", "system"}, {"content", system_}});
    for (const Json& turn : turns_) all.push_back(turn);
    return all;
  }

 private:
  std::string system_;
  Json::Array turns_;
};

}  // namespace reprise::tools
