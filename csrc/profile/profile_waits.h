/* profile_waits.h: what a profile (profile.h) observes of the core: how long go blocks and the main program wait. */
#ifndef RUNNEL_PROFILE_WAITS_H
#define RUNNEL_PROFILE_WAITS_H

#include "profile/profile_state.h"

/* Chooses the next step. They differ, since waits may repeat in a rhythm: with equal steps always the same would be
   recorded. */
void profile_choose_step(Profile *p);

/* Records the present waits, at the end of the profile. */
void profile_add_present(lua_State *L, Profile *p);

#endif
