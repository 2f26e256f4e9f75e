#pragma once
// What stands in a prompt for a part of a message that models here cannot take: an image, a file, a sound.
//
// In a new message of the user's such a part is refused by name. In what was said before, and in results of tools, it
// becomes this text: clients send their history again with every request, so that a refusal there would end the session.
//
// Threading: a pure function.

#include <string>
#include <string_view>

namespace reprise::protocol {

/// `type` as the API spells it: "image", "image_url", "input_image" are all an image.
inline std::string omitted_part(std::string_view type) {
  if (type.starts_with("input_")) type.remove_prefix(6);
  if (type.ends_with("_url")) type.remove_suffix(4);
  return "[" + std::string(type) + " omitted: this model takes text only]";
}

}  // namespace reprise::protocol
