#pragma once
// What is multiplied: numbers as a model has them. Some processors are faster with zeros, which is no help.
//
// Threading: constants.

namespace reprise::tools {

alignas(64) inline constexpr signed char kBytes[64] = {
    53,  -17, 96,  -120, 7,    31, -64, 88,   -3,  109, -45, 12,  -99, 61,   24,   -78,
    115, -28, 5,   70,   -110, 43, -8,  91,   -57, 19,  102, -36, 66,  -125, 10,   37,
    -81, 48,  -14, 120,  -69,  2,  83,  -104, 29,  58,  -41, 94,  -22, 74,   -116, 15,
    -90, 35,  107, -51,  68,   -6, 40,  -73,  99,  -33, 17,  125, -84, 55,   -11,  27};
alignas(64) inline constexpr float kFloats[16] = {0.731F,  -0.418F, 0.1943F, -0.867F, 0.553F,   -0.2917F,
                                                  0.977F,  -0.646F, -0.385F, 0.8121F, -0.5287F, 0.243F,
                                                  -0.937F, 0.6613F, -0.149F, 0.4759F};
alignas(64) inline constexpr unsigned short kBf16s[32] = {
    0x3f3b, 0xbed6, 0x3e47, 0xbf5e, 0x3f0e, 0xbe95, 0x3f7a, 0xbf25, 0xbec5, 0x3f50, 0xbf07,
    0x3e79, 0xbf70, 0x3f29, 0xbe19, 0x3ef4, 0x3f61, 0xbe2f, 0x3f13, 0xbf43, 0x3ea8, 0xbf1c,
    0x3f6d, 0xbe83, 0xbf57, 0x3e5b, 0x3f35, 0xbee1, 0x3f02, 0xbf78, 0x3e91, 0xbf4a};

}  // namespace reprise::tools
