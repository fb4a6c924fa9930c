(** Pure differential privacy as a ratio: the basic theorems. *)

From Coq Require Import Reals Lra Lia List.
From Sfumato Require Import Dist.
Import ListNotations.
Open Scope R_scope.

Definition decidable_equality (A : Type) := forall a b : A, {a = b} + {a <> b}.

Section Privacy.
Context {Data : Type} (near : Data -> Data -> Prop).

(** [r]-private: no outcome is more than [r] times as likely on a neighbour. *)
Definition private {A} (r : R) (M : Data -> law A) : Prop :=
  forall D D', near D D' -> forall a, M D a <= r * M D' a.

(** The definition by events is the same. *)
Theorem private_iff_events {A} (EA : decidable_equality A) r (M : Data -> law A) : 0 <= r ->
  private r M <->
  (forall D D', near D D' -> forall E p p', chance (M D) E p -> chance (M D') E p' -> p <= r * p').
Proof.
  intros R0. split.
  - intros H D D' N E p p' C C'.
    apply (total_le _ _ _ C). intros l Nl.
    apply Rle_trans with (r * sum (fun a => if E a then M D' a else 0) l).
    + rewrite <- sum_scale. apply sum_le. intros a _. specialize (H D D' N a). destruct (E a); lra.
    + apply Rmult_le_compat_l; auto. apply (total_ub _ _ _ C' Nl).
  - intros H D D' N a.
    assert (S : forall P : law A, chance P (fun x => if EA x a then true else false) (P a)).
    { intros P. replace (P a) with (sum (fun x => if (if EA x a then true else false) then P x else 0) [a])
        by (simpl; destruct (EA a a); [lra|congruence]).
      apply total_finite; auto.
      - intros x. destruct (EA x a); [apply mass_nonneg|lra].
      - repeat constructor. simpl. tauto.
      - intros x Hx. destruct (EA x a) as [->|]; [simpl in Hx; tauto|reflexivity]. }
    exact (H D D' N _ _ _ (S (M D)) (S (M D'))).
Qed.

(** Post-processing, randomised. *)
Theorem post_processing {A B} (EA : decidable_equality A) (EB : decidable_equality B)
  r (M : Data -> law A) (K : A -> law B) :
  0 <= r -> private r M -> private r (fun D => after EA EB (M D) K).
Proof.
  intros R0 H D D' N b. simpl.
  apply (total_le _ _ _ (second_spec (joint EA (M D) K) b)). intros l Nl.
  apply Rle_trans with (r * sum (fun a => joint EA (M D') K (a, b)) l).
  - rewrite <- sum_scale. apply sum_le. intros a _. simpl. unfold joint_mass. simpl.
    specialize (H D D' N a). pose proof (mass_nonneg (K a) b). nra.
  - apply Rmult_le_compat_l; auto. apply (total_ub _ _ _ (second_spec _ b) Nl).
Qed.

(** Adaptive sequential composition: the second mechanism is chosen by the first answer. *)
Theorem sequential_composition {A B} (EA : decidable_equality A) r1 r2
  (M1 : Data -> law A) (M2 : A -> Data -> law B) : 0 <= r1 ->
  private r1 M1 -> (forall a, private r2 (M2 a)) ->
  private (r1 * r2) (fun D => joint EA (M1 D) (fun a => M2 a D)).
Proof.
  intros R1 H1 H2 D D' N (a, b). simpl. unfold joint_mass. simpl.
  specialize (H1 D D' N a). specialize (H2 a D D' N b).
  pose proof (mass_nonneg (M1 D) a). pose proof (mass_nonneg (M2 a D) b).
  apply Rle_trans with (r1 * M1 D' a * (r2 * M2 a D' b)); [|lra].
  apply Rmult_le_compat; auto.
Qed.

(** Group privacy: k steps between neighbours cost the k-th power. *)
Inductive steps : nat -> Data -> Data -> Prop :=
| no_step D : steps 0 D D
| one_step k D D' D'' : near D D' -> steps k D' D'' -> steps (S k) D D''.

Theorem group_privacy {A} r (M : Data -> law A) k : 0 <= r -> private r M ->
  forall D D', steps k D D' -> forall a, M D a <= r ^ k * M D' a.
Proof.
  intros R0 H D D' C a. induction C as [|k D D' D'' N C IH]; simpl; [lra|].
  specialize (H D D' N a). apply Rle_trans with (r * M D' a); auto.
  rewrite Rmult_assoc. apply Rmult_le_compat_l; auto.
Qed.
End Privacy.

(** Parallel composition: each mechanism reads one part, and neighbours differ in one part. *)
Section Parallel.
Context {Data Part A I : Type} (near : Part -> Part -> Prop) (part : I -> Data -> Part) (EI : decidable_equality I).

Definition near_in_one_part (D D' : Data) : Prop :=
  exists j, near (part j D) (part j D') /\ forall i, i <> j -> part i D = part i D'.

(** Independent answers of the parts [is]. *)
Fixpoint parallel (M : I -> Part -> law A) (is : list I) (D : Data) (answers : list A) : R :=
  match is, answers with
  | [], [] => 1
  | i :: is, a :: answers => M i (part i D) a * parallel M is D answers
  | _, _ => 0
  end.

Lemma parallel_nonneg M is D answers : 0 <= parallel M is D answers.
Proof.
  revert answers. induction is as [|i is IH]; intros [|a answers]; simpl; try lra.
  apply Rmult_le_pos; [apply mass_nonneg|apply IH].
Qed.

Lemma parallel_same M is D D' j answers : (forall i, i <> j -> part i D = part i D') -> ~ In j is ->
  parallel M is D answers = parallel M is D' answers.
Proof.
  intros S. revert answers. induction is as [|i is IH]; intros [|a answers] Hj; simpl in *; auto.
  rewrite (S i), IH; tauto || (intros ->; tauto).
Qed.

Theorem parallel_composition r M is : 1 <= r -> NoDup is -> (forall i, private near r (M i)) ->
  forall D D', near_in_one_part D D' -> forall answers, parallel M is D answers <= r * parallel M is D' answers.
Proof.
  intros R1 N H D D' (j & Nj & S). induction N as [|i is Hi N IH]; intros [|a answers]; simpl; try lra.
  pose proof (mass_nonneg (M i (part i D)) a). pose proof (mass_nonneg (M i (part i D')) a).
  pose proof (parallel_nonneg M is D answers). pose proof (parallel_nonneg M is D' answers).
  specialize (IH answers).
  destruct (EI i j) as [->|E].
  - rewrite (parallel_same M is D D' j answers S Hi).
    apply Rle_trans with (r * M j (part j D') a * parallel M is D' answers); [|lra].
    apply Rmult_le_compat_r; auto. apply H; auto.
  - rewrite (S i E). apply Rle_trans with (M i (part i D') a * (r * parallel M is D' answers)); [|lra].
    apply Rmult_le_compat_l; auto.
Qed.
End Parallel.

(** Randomised response over a list of values: the truth with mass p, each other value with mass q. *)
Section Response.
Context {V : Type} (EV : decidable_equality V) (values : list V) (p q : R).
Hypotheses (distinct : NoDup values) (q_pos : 0 < q) (p_more : q <= p)
  (whole : p + INR (length values - 1) * q = 1).

Definition response_mass (truth v : V) : R :=
  if in_dec EV v values then if EV v truth then p else q else 0.

Lemma response_total truth : In truth values -> total (response_mass truth) 1.
Proof.
  intros Ht. replace 1 with (sum (response_mass truth) values).
  - apply total_finite; auto.
    + intros v. unfold response_mass. destruct (in_dec EV v values), (EV v truth); lra.
    + intros v H. unfold response_mass. destruct (in_dec EV v values); tauto.
  - destruct (in_split _ _ Ht) as (l1 & l2 & E). rewrite E, sum_remove.
    rewrite E in distinct. apply NoDup_remove in distinct as [N Hn].
    rewrite (sum_ext _ (fun _ => q)), sum_const.
    + unfold response_mass. destruct (in_dec EV truth values); [|tauto].
      destruct (EV truth truth); [|congruence]. rewrite <- whole, E, !app_length. simpl.
      do 3 f_equal. lia.
    + intros v Hv. unfold response_mass. destruct (in_dec EV v values) as [|C].
      * destruct (EV v truth) as [->|]; [contradiction|reflexivity].
      * destruct C. rewrite E. rewrite in_app_iff in *. simpl. tauto.
Qed.

Definition response (truth : {v | In v values}) : law V :=
  {| mass := response_mass (proj1_sig truth);
     mass_nonneg := fun v => ltac:(unfold response_mass; destruct (in_dec EV v values), (EV v (proj1_sig truth)); lra);
     mass_total := response_total _ (proj2_sig truth) |}.

(** One person holds one value, and any other value is a neighbour: the exact loss is p/q. *)
Theorem randomized_response_exact r : (2 <= length values)%nat ->
  private (fun _ _ => True) r response <-> p / q <= r.
Proof.
  intros Two. split.
  - intros H. assert (X : exists v w, In v values /\ In w values /\ v <> w).
    { clear - Two distinct. destruct distinct as [|v [|w l] Hv N]; simpl in Two; try lia.
      exists v, w. simpl in *. intuition. }
    destruct X as (v & w & Hv & Hw & D). specialize (H (exist _ v Hv) (exist _ w Hw) I v). simpl in H. unfold response_mass in H.
    destruct (in_dec EV v values); [|tauto]. destruct (EV v v); [|congruence].
    destruct (EV v w) as [<-|]; [congruence|].
    apply (Rmult_le_reg_r q); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  - intros H (x & Hx) (y & Hy) _ v. simpl. unfold response_mass.
    assert (p <= r * q).
    { apply (Rmult_le_compat_r q) in H; [|lra]. unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H; lra. }
    assert (1 <= r) by nra.
    destruct (in_dec EV v values); [|lra]. destruct (EV v x), (EV v y); nra.
Qed.
End Response.
