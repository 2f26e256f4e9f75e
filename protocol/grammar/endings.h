#pragma once
// Endings: short texts by which the nodes of a program come to an end, so that a reply that meets its limit can be closed
// (mask_maker.h). A text is short, not always the shortest: members come in the order of the schema, strings without a rule
// are as short as they may be.
//
// Costs are found once for a program, by steps of its own budget: where that is used up there are no endings. Text between
// tags (kEmbedded with a mark) has none.
//
// Threading: one thread at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/grammar/places.h"
#include "protocol/grammar/program.h"

namespace reprise::protocol::grammar {

/// A text by which a reply ends.
struct Ending {
  struct Mark {
    std::uint32_t begin = 0;
    std::uint32_t bytes = 0;
  };
  std::string text{};
  std::vector<Mark> marks{};  // parts of it that a special token may stand for
};

class Endings {
 public:
  static constexpr std::uint32_t kNone =
      UINT32_MAX;  // a cost: there is no ending, or none that is short enough
  static constexpr std::uint32_t kMaxBytes = 1024;

  explicit Endings(const Program& program);

  /// False: finding them took too much, and nothing else here may be asked for.
  bool are_known() const { return known_; }
  /// That it holds, about.
  std::size_t bytes() const { return bytes_; }
  /// Before each ending: what its work may take is counted from here, so that it does not depend on earlier ones.
  void begin_one() const;

  /// Bytes from the node to the end of its rule or value, or kNone.
  std::uint32_t cost(NodeId node) const { return costs_[node]; }
  /// The highest cost of a node that has one.
  std::uint32_t max_cost() const { return max_cost_; }
  /// Appends the text from the node on. False: it has none; `out` is of no use then.
  bool write(NodeId node, Ending& out, std::uint32_t depth = 0) const;

  /// Appends characters from a state of an automaton to a state with a label; `json`: as a JSON string has them.
  bool write_chars(std::uint32_t dfa, std::uint32_t state, bool json, std::string& out) const;
  /// The highest cost of the characters of a JSON string from any state of the automaton on.
  std::uint32_t max_chars_cost(std::uint32_t dfa) const;
  /// Appends the whitespace that must come.
  bool write_space(std::uint32_t state, std::string& out) const;

  /// The labels of members that must come yet (ObjectSpec::keys), `first` at the front where it is not 0. False: there is
  /// no such list.
  bool members_to_come(std::uint32_t object, const std::vector<std::uint64_t>& seen, std::uint32_t count,
                       std::uint32_t first, std::vector<std::uint32_t>& labels) const;
  /// Of a member with its key, or kNone.
  std::uint32_t member_cost(std::uint32_t object, std::uint32_t label) const;
  /// The highest member_cost() of keys that are no property's; 0: there are none.
  std::uint32_t max_other_cost(std::uint32_t object) const;
  /// Appends the value that belongs to a label.
  bool write_value(std::uint32_t object, std::uint32_t label, Ending& out, std::uint32_t depth = 0) const;
  /// Appends a colon and the value.
  bool write_after_key(std::uint32_t object, std::uint32_t label, Ending& out, std::uint32_t depth = 0) const;
  /// Appends members and the closing brace; `comma`: before the first of them.
  bool write_members(std::uint32_t object, const std::vector<std::uint32_t>& labels, bool comma, Ending& out,
                     std::uint32_t depth = 0) const;
  /// Appends items from `index` on until there are enough, and the closing bracket; `comma`: before the first of them.
  bool write_items(const ArraySpec& spec, std::uint32_t index, bool comma, Ending& out,
                   std::uint32_t depth = 0) const;

  struct Path {
    std::uint32_t label = 0;
    std::string text{};  // as a JSON string has it
  };
  using IsUsable = std::function<bool(std::uint32_t label)>;
  /// Ways from a state of an automaton to usable labels, each label once, the shortest first.
  std::vector<Path> paths(std::uint32_t dfa, std::uint32_t state, const IsUsable& is_usable,
                          std::size_t max_paths, std::size_t max_states) const;

 private:
  // By state of an automaton.
  struct CharCosts {
    std::vector<std::uint32_t> cost{};
    std::vector<std::uint32_t> edge{};  // that leads on
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
  std::vector<std::string> spaces_;  // by state of JsonSpace
  std::vector<bool> has_space_;
  std::vector<std::vector<std::string>> keys_;  // by object and label: the key with its quotes; empty: none
};

/// Texts by which a reply ends from a place, with all that is open there.
class PlaceEndings {
 public:
  /// Keeps references to all.
  PlaceEndings(const Program& program, const Stacks& stacks, const Endings& endings)
      : program_(program), stacks_(stacks), endings_(endings) {}

  /// Appends the text, from between two characters on. False: it has none; `out` is of no use then.
  bool write(const Place& place, Ending& out) const;

 private:
  bool write_object(const Place& place, Ending& out) const;
  bool write_key(const Place& place, Ending& out) const;
  bool write_array(const Place& place, Ending& out) const;
  bool write_frames(std::uint32_t stack, Ending& out) const;
  bool write_rest(std::uint32_t object, std::uint32_t members, Ending& out) const;
  bool members_after_comma(std::uint32_t object, const Stacks::Members& members,
                           std::vector<std::uint32_t>& labels) const;

  const Program& program_;
  const Stacks& stacks_;
  const Endings& endings_;
};

}  // namespace reprise::protocol::grammar
