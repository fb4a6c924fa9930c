(** Imperfect coins: what additive noise needs of its randomness. *)

From Coq Require Import Reals Lra Lia List ZArith Bool.
From Sfumato Require Import Dist Privacy.
Import ListNotations.
Open Scope R_scope.

(** ** Additive noise gives a bit extractor *)

Section Extractor.
Context {C : Type} (all : list C) (P : C -> R) (noise : C -> Z) (r : R).
Hypotheses (P_nonneg : forall c, 0 <= P c) (r_pos : 0 <= r).

(** The chance that the answer to the true value x is y. *)
Definition answer (x y : Z) : R := sum (fun c => if Z.eq_dec (x + noise c) y then P c else 0) all.

Definition additive_private : Prop := forall x x' y, (Z.abs (x - x') <= 1)%Z -> answer x y <= r * answer x' y.

Definition parity (b : bool) : R := sum (fun c => if Bool.bool_dec (Z.even (noise c)) b then P c else 0) all.

Lemma answers_of_parity b ks : NoDup ks -> (forall k, In k ks -> Z.even k = b) -> sum (answer 0) ks <= parity b.
Proof.
  intros N E. unfold answer, parity. rewrite sum_swap. apply sum_le. intros c _. cbn [Z.add].
  induction N as [|k ks Hk N IH]; simpl.
  - destruct (bool_dec (Z.even (noise c)) b); auto. lra.
  - destruct (Z.eq_dec (noise c) k) as [->|D].
    + rewrite sum_zero.
      * destruct (bool_dec (Z.even k) b) as [|Q]; [lra|]. exfalso. apply Q, E. simpl. auto.
      * intros k' H. destruct (Z.eq_dec k k') as [<-|]; [contradiction|reflexivity].
    + rewrite Rplus_0_l. apply IH. intros; apply E; simpl; auto.
Qed.

Lemma parity_of_answers b : parity b = sum (answer 0) (filter (fun k => if Bool.bool_dec (Z.even k) b then true else false) (nodup Z.eq_dec (map noise all))).
Proof.
  unfold answer, parity. rewrite sum_swap. apply sum_ext. intros c Hc. cbn [Z.add].
  set (ks := filter _ _).
  assert (N : NoDup ks) by (apply NoDup_filter, NoDup_nodup).
  destruct (bool_dec (Z.even (noise c)) b) as [E|E].
  - assert (I : In (noise c) ks).
    { apply filter_In. split; [apply nodup_In, in_map; auto|]. destruct (bool_dec (Z.even (noise c)) b); congruence. }
    destruct (in_split _ _ I) as (l1 & l2 & Q). rewrite Q in *. rewrite sum_remove.
    apply NoDup_remove in N as [_ N]. rewrite sum_zero.
    + destruct (Z.eq_dec (noise c) (noise c)); [lra|congruence].
    + intros k H. destruct (Z.eq_dec (noise c) k) as [<-|]; [contradiction|reflexivity].
  - symmetry. apply sum_zero. intros k H. destruct (Z.eq_dec (noise c) k) as [<-|]; auto.
    apply filter_In in H as [_ H]. destruct (bool_dec (Z.even (noise c)) b); congruence.
Qed.

(** Theorem. If adding the noise is r-private for counts, the noise modulo 2 is a bit that is fair up to r. *)
Theorem additive_noise_extracts_a_bit b : additive_private -> parity b <= r * parity (negb b).
Proof.
  intros A. rewrite (parity_of_answers b). set (ks := filter _ _).
  assert (N : NoDup ks) by (apply NoDup_filter, NoDup_nodup).
  apply Rle_trans with (r * sum (answer 0) (map Z.succ ks)).
  - rewrite sum_map, <- sum_scale. apply sum_le. intros k _.
    assert (E : answer 0 (Z.succ k) = answer (-1) k).
    { unfold answer. apply sum_ext. intros c _. destruct (Z.eq_dec (0 + noise c) (Z.succ k)), (Z.eq_dec (-1 + noise c) k); auto; lia. }
    rewrite E. apply A. lia.
  - apply Rmult_le_compat_l; auto. apply answers_of_parity.
    + apply FinFun.Injective_map_NoDup; auto. intros x y. lia.
    + intros k H. apply in_map_iff in H as (k' & <- & H). apply filter_In in H as [_ H].
      rewrite Z.even_succ, <- Z.negb_even. destruct (bool_dec (Z.even k') b); congruence.
Qed.
End Extractor.

(** ** Santha-Vazirani sources: each bit may be biased by gamma, given all earlier bits *)

Fixpoint strings (m : nat) : list (list bool) :=
  match m with O => [[]] | S m => map (cons true) (strings m) ++ map (cons false) (strings m) end.

Lemma strings_length m : length (strings m) = (2 ^ m)%nat.
Proof. induction m; simpl; auto. rewrite app_length, !map_length. lia. Qed.

Lemma strings_NoDup m : NoDup (strings m).
Proof.
  induction m as [|m IH]; simpl; [repeat constructor; simpl; tauto|].
  assert (G : forall l : list (list bool), NoDup l -> NoDup (map (cons true) l ++ map (cons false) (strings m))).
  { induction 1 as [|x l Hx N IHl]; simpl.
    - apply FinFun.Injective_map_NoDup; auto. congruence.
    - constructor; auto. rewrite in_app_iff, !in_map_iff. intros [(y & E & H)|(y & E & H)]; congruence. }
  apply G. exact IH.
Qed.

Lemma NoDup_left {A} (l l' : list A) : NoDup (l ++ l') -> NoDup l.
Proof.
  induction l as [|a l IH]; simpl; intros N; [constructor|]. inversion N; subst. constructor; auto.
  intros H. apply H1. apply in_app_iff. auto.
Qed.

Definition ESt : forall a b : list bool, {a = b} + {a <> b} := list_eq_dec bool_dec.

Section Sources.
Variables (gamma : R) (m : nat).
Hypothesis gamma_range : 0 <= gamma < 1.

(** The mass of all strings that begin with [w] and have [k] more bits. *)
Definition begins (P : list bool -> R) (w : list bool) (k : nat) : R := sum (fun c => P (w ++ c)) (strings k).

Definition source (P : list bool -> R) : Prop :=
  (forall c, 0 <= P c) /\ sum P (strings m) = 1 /\
  forall w b k, (length w + S k = m)%nat ->
    (1 - gamma) / 2 * begins P w (S k) <= begins P (w ++ [b]) k <= (1 + gamma) / 2 * begins P w (S k).

Lemma begins_split P w k : begins P w (S k) = begins P (w ++ [true]) k + begins P (w ++ [false]) k.
Proof.
  unfold begins. simpl. rewrite sum_app, !sum_map. f_equal; apply sum_ext; intros c _; rewrite <- app_assoc; reflexivity.
Qed.

(** Every weight within (1 ± gamma) of uniform is such a source. *)
Lemma nearly_uniform_is_source P u : 0 < u -> (forall c, (1 - gamma) * u <= P c <= (1 + gamma) * u) ->
  sum P (strings m) = 1 -> source P.
Proof.
  intros U B S. split; [intros c; specialize (B c); nra|]. split; auto. intros w b k _.
  assert (G : forall w, (1 - gamma) * u * INR (length (strings k)) <= begins P w k <= (1 + gamma) * u * INR (length (strings k))).
  { intros v. unfold begins. rewrite !(Rmult_comm _ (INR _)), <- !sum_const. split; apply sum_le; intros c _; apply B. }
  rewrite begins_split. pose proof (G (w ++ [true])). pose proof (G (w ++ [false])).
  set (n := u * INR (length (strings k))) in *.
  replace ((1 - gamma) * u * INR (length (strings k))) with ((1 - gamma) * n) in * by (unfold n; ring).
  replace ((1 + gamma) * u * INR (length (strings k))) with ((1 + gamma) * n) in * by (unfold n; ring).
  destruct b; nra.
Qed.

(** Theorem. No function of the bits is a fair bit for all of these sources: some source gives a value that the function has
    on half of the strings the chance (1 + gamma)/2. *)
Theorem no_deterministic_extractor (f : list bool -> bool) : (0 < m)%nat ->
  (2 ^ (m - 1) <= length (filter f (strings m)))%nat ->
  exists P, source P /\ (1 + gamma) / 2 <= sum (fun c => if f c then P c else 0) (strings m).
Proof.
  intros M H. set (half := (2 ^ (m - 1))%nat) in *. set (S := firstn half (filter f (strings m))).
  set (u := / INR (2 ^ m)).
  assert (T : INR (2 ^ m) = 2 * INR half).
  { unfold half. replace m with (Datatypes.S (m - 1)) at 1 by lia. simpl Nat.pow. rewrite Nat.add_0_r, plus_INR. ring. }
  assert (Hp : 0 < INR half) by (apply lt_0_INR; unfold half; apply Nat.neq_0_lt_0, Nat.pow_nonzero; lia).
  assert (Up : 0 < u) by (unfold u; apply Rinv_0_lt_compat; lra).
  assert (Uh : u * INR half = 1 / 2) by (unfold u; rewrite T; field; lra).
  assert (LS : length S = half) by (unfold S; rewrite firstn_length; lia).
  assert (NS : NoDup S).
  { unfold S. assert (N : NoDup (filter f (strings m))) by apply NoDup_filter, strings_NoDup.
    rewrite <- (firstn_skipn half (filter f (strings m))) in N. apply NoDup_left in N. exact N. }
  assert (IS : forall c, In c S -> In c (strings m) /\ f c = true).
  { intros c Hc. assert (In c (filter f (strings m))) by (rewrite <- (firstn_skipn half); apply in_app_iff; auto).
    apply filter_In in H0. exact H0. }
  clearbody S.
  assert (Ind : sum (fun c => if in_dec ESt c S then 1 else 0) (strings m) = INR half).
  { rewrite <- LS, <- (Rmult_1_r (INR (length S))), <- sum_const.
    transitivity (sum (fun _ : list bool => 1) (filter (fun c => if in_dec ESt c S then true else false) (strings m))).
    - clear. induction (strings m) as [|c l IH]; simpl; auto. destruct (in_dec ESt c S); simpl; rewrite IH; lra.
    - apply sum_incl_eq; auto.
      + apply NoDup_filter, strings_NoDup.
      + intros c Hc. apply filter_In in Hc as [_ Hc]. destruct (in_dec ESt c S); congruence.
      + intros c Hc. apply filter_In. split; [apply IS; auto|]. destruct (in_dec ESt c S); tauto. }
  set (P := fun c => (1 - gamma) * u + 2 * gamma * u * (if in_dec ESt c S then 1 else 0)).
  assert (SP : sum P (strings m) = 1).
  { unfold P. rewrite sum_plus, sum_const, sum_scale, Ind, strings_length, T. nra. }
  exists P. split.
  - apply (nearly_uniform_is_source P u); auto. intros c. unfold P. destruct (in_dec ESt c S); nra.
  - apply Rle_trans with (sum (fun c => (1 + gamma) * u * (if in_dec ESt c S then 1 else 0)) (strings m)).
    + rewrite sum_scale, Ind. rewrite Rmult_assoc, Uh. lra.
    + apply sum_le. intros c _. unfold P. destruct (in_dec ESt c S) as [I|I].
      * destruct (IS c I) as [_ ->]. lra.
      * destruct (f c); nra.
Qed.

(** Corollary. However large the noise: if adding it is r-private for counts on all these sources, then
    r >= (1 + gamma)/(1 - gamma). *)
Theorem additive_noise_needs_fair_coins (noise : list bool -> Z) r : (0 < m)%nat -> 0 <= r ->
  (forall P, source P -> additive_private (strings m) P noise r) -> (1 + gamma) / (1 - gamma) <= r.
Proof.
  intros M R0 H.
  assert (G : forall b, (2 ^ (m - 1) <= length (filter (fun c => eqb (Z.even (noise c)) b) (strings m)))%nat ->
                        (1 + gamma) / (1 - gamma) <= r).
  { intros b L. destruct (no_deterministic_extractor _ M L) as (P & SP & Q). destruct SP as (P0 & P1 & P2).
    pose proof (additive_noise_extracts_a_bit (strings m) P noise r P0 R0 b (H P (conj P0 (conj P1 P2)))) as X.
    assert (E : sum (fun c => if eqb (Z.even (noise c)) b then P c else 0) (strings m) = parity (strings m) P noise b).
    { unfold parity. apply sum_ext. intros c _. destruct (Z.even (noise c)), b; simpl; reflexivity. }
    assert (W : parity (strings m) P noise b + parity (strings m) P noise (negb b) = 1).
    { rewrite <- P1. unfold parity. rewrite <- sum_plus. apply sum_ext. intros c _. destruct (Z.even (noise c)), b; simpl; lra. }
    rewrite E in Q.
    apply (Rmult_le_reg_r (1 - gamma)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra. }
  assert (C : (length (filter (fun c => eqb (Z.even (noise c)) true) (strings m)) +
               length (filter (fun c => eqb (Z.even (noise c)) false) (strings m)) = 2 ^ m)%nat).
  { rewrite <- strings_length. clear. induction (strings m) as [|c l IH]; simpl; auto. destruct (Z.even (noise c)); simpl; lia. }
  assert (2 ^ m = 2 * 2 ^ (m - 1))%nat by (replace m with (S (m - 1)) at 1 by lia; reflexivity).
  destruct (le_lt_dec (2 ^ (m - 1)) (length (filter (fun c => eqb (Z.even (noise c)) true) (strings m)))) as [L|L].
  - exact (G true L).
  - apply (G false). lia.
Qed.
End Sources.
