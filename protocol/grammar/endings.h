#pragma once
// Endings: short completions of a program's nodes, used to close a reply before its token limit
// (mask_maker.h). A completion is short but not always minimal: members come in schema order, and strings
// without a pattern have their minimum length.
//
// Costs are computed once per program within a step budget; if it is exceeded, there are no endings. Text
// between tags (kEmbedded with a mark) has none.
//
// Threading: one thread at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/grammar/location.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// A text that completes a reply.
struct Ending {
  struct Mark {
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
  };
  std::string text{};
  std::vector<Mark> marks{};  // parts that may be written as special tokens
};

class Endings {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;  // a cost: no ending, or none within kMaxBytes
  static constexpr std::uint32_t kMaxBytes = 1024;

  explicit Endings(const Program& program);

  /// Returns false if computing the costs exceeded the budget. Requires for all other calls: true.
  bool are_known() const { return known_; }
  /// Returns the approximate memory used.
  std::size_t bytes() const { return bytes_; }
  /// Resets the work counter. Called before each ending, so that its budget does not depend on earlier ones.
  void begin_one() const;

  /// Returns the bytes needed from the node to the end of its rule or value, or kNone.
  std::uint32_t cost(NodeId node) const { return costs_[node]; }
  std::uint32_t max_cost() const { return max_cost_; }
  /// Appends the text from the node to the end of its rule or value. Returns false if there is none; `out` is
  /// unspecified then.
  bool write(NodeId node, Ending& out, std::uint32_t depth = 0) const;

  /// Appends characters that lead from the state to an accepting state; `json`: with JSON escapes.
  bool write_chars(std::uint32_t dfa, std::uint32_t state, bool json, std::string& out) const;
  /// Returns the highest cost, over all states of the automaton, of completing a JSON string.
  std::uint32_t max_chars_cost(std::uint32_t dfa) const;
  /// Appends the whitespace that is required in this state.
  bool write_space(std::uint32_t state, std::string& out) const;

  /// Sets `labels` to the members that are still required (labels of ObjectSpec::keys), starting with `first`
  /// unless that is 0. Returns false if no list of members can complete the object.
  bool members_to_come(std::uint32_t object, const std::vector<std::uint64_t>& seen, std::uint32_t count,
                       std::uint32_t first, std::vector<std::uint32_t>& labels) const;
  /// Returns the cost of a member with its key, or kNone.
  std::uint32_t member_cost(std::uint32_t object, std::uint32_t label) const;
  /// Returns the highest member_cost() of undeclared keys; 0: none.
  std::uint32_t max_other_cost(std::uint32_t object) const;
  bool write_value(std::uint32_t object, std::uint32_t label, Ending& out, std::uint32_t depth = 0) const;
  bool write_after_key(std::uint32_t object, std::uint32_t label, Ending& out, std::uint32_t depth = 0) const;
  /// Appends members and the closing brace; `comma`: also a comma before the first member.
  bool write_members(std::uint32_t object, const std::vector<std::uint32_t>& labels, bool comma, Ending& out,
                     std::uint32_t depth = 0) const;
  /// Appends the required items from `index` on and the closing bracket; `comma`: also a comma before the
  /// first item.
  bool write_items(const ArraySpec& spec, std::uint32_t index, bool comma, Ending& out,
                   std::uint32_t depth = 0) const;

  struct Path {
    std::uint32_t label = 0;
    std::string text{};  // JSON-escaped
  };
  using IsUsable = std::function<bool(std::uint32_t label)>;
  /// Returns the shortest path from a state to each usable label, shortest first.
  std::vector<Path> paths(std::uint32_t dfa, std::uint32_t state, const IsUsable& is_usable,
                          std::size_t max_paths, std::size_t max_states) const;

 private:
  // Completion costs by automaton state.
  struct CharCosts {
    std::vector<std::uint32_t> cost{};
    std::vector<std::uint32_t> edge{};  // first edge of the cheapest path
    std::uint32_t max = 0;
  };
  using Key = std::pair<std::uint32_t, bool>;

  void find_costs();
  std::uint32_t find_cost(const Node& node);
  std::uint32_t object_cost(std::uint32_t object);
  std::uint32_t array_cost(const ArraySpec& spec) const;
  const CharCosts& char_costs(std::uint32_t dfa, bool json);
  void find_space_costs();

  const Program& program_;
  mutable WorkBudget budget_;
  std::vector<std::uint32_t> costs_;
  std::uint32_t max_cost_ = 0;
  std::size_t bytes_ = 0;
  bool known_ = true;
  std::map<Key, CharCosts> chars_;
  std::vector<std::string> spaces_;  // shortest required whitespace, by state of JsonSpace
  std::vector<bool> has_space_;
  std::vector<std::vector<std::string>> keys_;  // [object][label]: the quoted key; empty: none
};

/// Completes a reply from a matcher location and its stack.
class LocationEndings {
 public:
  /// Keeps references to the arguments.
  LocationEndings(const Program& program, const Stacks& stacks, const Endings& endings)
      : program_(program), stacks_(stacks), endings_(endings) {}

  /// Appends the completion from a location that is between two characters. Returns false if there is none;
  /// `out` is unspecified then.
  bool write(const Location& location, Ending& out) const;

 private:
  bool write_object(const Location& location, Ending& out) const;
  bool write_key(const Location& location, Ending& out) const;
  bool write_array(const Location& location, Ending& out) const;
  bool write_frames(std::uint32_t stack, Ending& out) const;
  bool write_rest(std::uint32_t object, std::uint32_t members, Ending& out) const;
  bool members_after_comma(std::uint32_t object, const Stacks::Members& members,
                           std::vector<std::uint32_t>& labels) const;

  const Program& program_;
  const Stacks& stacks_;
  const Endings& endings_;
};

}  // namespace reprise::protocol::grammar
