(** The bounded copy: rows of each person are ranked by a salted hash and cut at a cap.

    The draw of a row may be any function of the salt, the person, the row and the number of equal rows before it.
    It reads no other person's rows. *)

From Coq Require Import ZArith Lia List Permutation Sorted Bool.
Import ListNotations.
Open Scope Z_scope.

(** ** Rank and cut, executable *)

Section Ranking.
Context {Row : Type} (EqR : forall a b : Row, {a = b} + {a <> b}).

(** Equal rows are numbered 0, 1, 2, … *)
Fixpoint numbered (rows : list Row) : list (Row * nat) :=
  match rows with
  | [] => []
  | r :: rows => (r, count_occ EqR rows r) :: numbered rows
  end.

Variable draw : Row * nat -> Z.

Fixpoint insert (x : Row * nat) (l : list (Row * nat)) : list (Row * nat) :=
  match l with
  | [] => [x]
  | y :: l => if draw x <? draw y then x :: y :: l else y :: insert x l
  end.

Fixpoint ranked (l : list (Row * nat)) : list (Row * nat) :=
  match l with
  | [] => []
  | x :: l => insert x (ranked l)
  end.

Definition cut (cap : nat) (rows : list Row) : list Row := map fst (firstn cap (ranked (numbered rows))).

Lemma insert_perm x l : Permutation (x :: l) (insert x l).
Proof.
  induction l as [|y l IH]; simpl; auto. destruct (draw x <? draw y); auto.
  eapply perm_trans; [apply perm_swap|]. constructor. exact IH.
Qed.

Lemma ranked_perm l : Permutation l (ranked l).
Proof. induction l as [|x l IH]; simpl; auto. rewrite <- insert_perm. auto. Qed.

Lemma numbered_rows rows : map fst (numbered rows) = rows.
Proof. induction rows; simpl; congruence. Qed.

(** Numbering does not depend on the order of the rows, as a multiset. *)
Lemma numbered_perm rows rows' : Permutation rows rows' -> Permutation (numbered rows) (numbered rows').
Proof.
  assert (C : forall (r : Row) l l', Permutation l l' -> count_occ EqR l r = count_occ EqR l' r).
  { intros r l l' P. induction P; simpl; auto; try congruence.
    - destruct (EqR x r); auto.
    - destruct (EqR x r), (EqR y r); auto. }
  induction 1 as [|r l l' P IH|x y l|l l' l'' P IH P' IH']; simpl; auto.
  - rewrite (C r l l' P). auto.
  - destruct (EqR x y) as [E|N], (EqR y x); try congruence; [subst; apply Permutation_refl|apply perm_swap].
  - eapply Permutation_trans; eauto.
Qed.

Definition earlier (x y : Row * nat) : Prop := draw x < draw y.

Lemma insert_sorted x l : StronglySorted earlier l -> (forall y, In y l -> draw y <> draw x) ->
  StronglySorted earlier (insert x l).
Proof.
  induction 1 as [|y l S IH F]; intros D; simpl; [repeat constructor|].
  destruct (Z.ltb_spec (draw x) (draw y)).
  - constructor; [constructor; auto|]. constructor; auto.
    rewrite Forall_forall in *. intros z Hz. specialize (F z Hz). unfold earlier in *. lia.
  - assert (draw y <> draw x) by (apply D; simpl; auto).
    constructor; [apply IH; intros; apply D; simpl; auto|].
    rewrite Forall_forall in *. intros z Hz.
    apply (Permutation_in _ (Permutation_sym (insert_perm x l))) in Hz. destruct Hz as [<-|Hz]; auto.
    unfold earlier. lia.
Qed.

Lemma ranked_sorted l : NoDup (map draw l) -> StronglySorted earlier (ranked l).
Proof.
  induction l as [|x l IH]; simpl; intros N; [constructor|]. inversion N; subst.
  apply insert_sorted; auto. intros y Hy E. apply H1. rewrite <- E. apply in_map.
  apply (Permutation_in _ (Permutation_sym (ranked_perm l))). exact Hy.
Qed.

Lemma sorted_unique l : forall l', StronglySorted earlier l -> StronglySorted earlier l' -> Permutation l l' -> l = l'.
Proof.
  induction l as [|x l IH]; intros l' S S' P.
  - apply Permutation_nil in P. auto.
  - destruct l' as [|y l']; [apply Permutation_sym, Permutation_nil in P; discriminate|].
    inversion S as [|? ? S1 F1]; inversion S' as [|? ? S2 F2]; subst. rewrite Forall_forall in *.
    assert (x = y).
    { assert (Hx : In x (y :: l')) by (apply (Permutation_in _ P); simpl; auto).
      assert (Hy : In y (x :: l)) by (apply (Permutation_in _ (Permutation_sym P)); simpl; auto).
      destruct Hx as [->|Hx]; auto. destruct Hy as [->|Hy]; auto.
      specialize (F1 _ Hy). specialize (F2 _ Hx). unfold earlier in *. lia. }
    subst y. f_equal. apply IH; auto. apply Permutation_cons_inv in P. exact P.
Qed.

(** With distinct draws there is one ranking, whatever the order in which rows are stored. *)
Lemma one_ranking rows rows' : NoDup (map draw (numbered rows)) -> Permutation rows rows' ->
  ranked (numbered rows) = ranked (numbered rows').
Proof.
  intros N P. pose proof (numbered_perm _ _ P) as Q. apply sorted_unique.
  - apply ranked_sorted; auto.
  - apply ranked_sorted. apply (Permutation_NoDup (Permutation_map draw Q)); auto.
  - rewrite <- !ranked_perm. exact Q.
Qed.

(** *** Unique columns: of each value only the row of the least draw stays; an absent value is no value *)

Context {Value : Type} (EqV : forall a b : Value, {a = b} + {a <> b}).

Fixpoint once (column : Row -> option Value) (taken : list Value) (l : list (Row * nat)) : list (Row * nat) :=
  match l with
  | [] => []
  | x :: l =>
      match column (fst x) with
      | None => x :: once column taken l
      | Some v => if in_dec EqV v taken then once column taken l else x :: once column (v :: taken) l
      end
  end.

(** Column by column, then the cap. Without unique columns this is [cut]. *)
Definition choose (cap : nat) (unique : list (Row -> option Value)) (rows : list Row) : list Row :=
  map fst (firstn cap (fold_left (fun l column => once column [] l) unique (ranked (numbered rows)))).

Lemma choose_cut cap rows : choose cap [] rows = cut cap rows.
Proof. reflexivity. Qed.

Lemma choose_length cap unique rows : (length (choose cap unique rows) <= cap)%nat.
Proof. unfold choose. rewrite map_length, firstn_length. lia. Qed.

(** A part of a list, in its order. *)
Inductive part : list (Row * nat) -> list (Row * nat) -> Prop :=
| part_nil l : part [] l
| part_keep x k l : part k l -> part (x :: k) (x :: l)
| part_drop x k l : part k l -> part k (x :: l).

Lemma part_refl l : part l l.
Proof. induction l; constructor; auto. Qed.

Lemma part_trans a b c : part a b -> part b c -> part a c.
Proof.
  intros P Q. revert a P. induction Q as [l|x k l Q IH|x k l Q IH]; intros a P.
  - inversion P. constructor.
  - inversion P; subst; [constructor|apply part_keep; auto|apply part_drop; auto].
  - apply part_drop. auto.
Qed.

Lemma part_incl k l : part k l -> incl k l.
Proof. induction 1; intros y H'; simpl in *; [tauto|destruct H'; auto|auto]. Qed.

Lemma once_part column l : forall taken, part (once column taken l) l.
Proof.
  induction l as [|x l IH]; intros taken; simpl; [constructor|].
  destruct (column (fst x)) as [v|]; [destruct (in_dec EqV v taken)|]; constructor; auto.
Qed.

Lemma firstn_part n l : part (firstn n l) l.
Proof. revert n. induction l as [|x l IH]; intros [|n]; simpl; constructor; auto. Qed.

Lemma fold_part unique l : part (fold_left (fun l column => once column [] l) unique l) l.
Proof.
  revert l. induction unique as [|column unique IH]; intros l; simpl; [apply part_refl|].
  eapply part_trans; [apply IH|apply once_part].
Qed.

Lemma choose_incl cap unique rows : incl (choose cap unique rows) rows.
Proof.
  intros r H. unfold choose in H. apply in_map_iff in H as (p & <- & H).
  apply (part_incl _ _ (firstn_part _ _)), (part_incl _ _ (fold_part _ _)) in H.
  apply (Permutation_in _ (Permutation_sym (ranked_perm _))) in H.
  rewrite <- (numbered_rows rows). apply in_map. exact H.
Qed.

Lemma choose_nothing cap unique : choose cap unique [] = [].
Proof.
  pose proof (choose_incl cap unique []) as I. destruct (choose cap unique []) as [|r l]; auto.
  destruct (I r). simpl. auto.
Qed.

Definition present (column : Row -> option Value) (l : list (Row * nat)) : list Value :=
  flat_map (fun x => match column (fst x) with Some v => [v] | None => [] end) l.

Lemma present_part column k l : part k l -> NoDup (present column l) -> NoDup (present column k).
Proof.
  assert (I : forall k l, part k l -> incl (present column k) (present column l)).
  { intros a b P v H. unfold present in *. apply in_flat_map in H as (x & Hx & Hv). apply in_flat_map.
    exists x. split; auto. apply (part_incl _ _ P). exact Hx. }
  induction 1 as [l|x k l P IH|x k l P IH]; simpl; intros N; [constructor| |].
  - destruct (column (fst x)) as [v|]; simpl in *; auto. inversion N; subst. constructor; auto.
    intros H. apply H1. apply (I _ _ P). exact H.
  - apply IH. destruct (column (fst x)); simpl in N; auto. inversion N; auto.
Qed.

Lemma once_unique column l : forall taken,
  NoDup (present column (once column taken l)) /\ forall v, In v (present column (once column taken l)) -> ~ In v taken.
Proof.
  induction l as [|x l IH]; intros taken; simpl; [split; [constructor|tauto]|].
  destruct (column (fst x)) as [v|] eqn:E.
  - destruct (in_dec EqV v taken) as [|N]; auto. destruct (IH (v :: taken)) as [H1 H2]. simpl. rewrite E. simpl. split.
    + constructor; auto. intros H. apply (H2 v H). simpl. auto.
    + intros w [<-|H]; auto. intros C. apply (H2 w H). simpl. auto.
  - destruct (IH taken) as [H1 H2]. simpl. rewrite E. simpl. auto.
Qed.

Definition values_of (column : Row -> option Value) (rows : list Row) : list Value :=
  flat_map (fun r => match column r with Some v => [v] | None => [] end) rows.

(** Theorem. No value of a unique column is kept twice. *)
Theorem chosen_values_are_unique cap unique rows column : In column unique -> NoDup (values_of column (choose cap unique rows)).
Proof.
  intros I. unfold choose, values_of. rewrite flat_map_concat_map, map_map, <- flat_map_concat_map.
  apply (present_part column _ _ (firstn_part _ _)). generalize (ranked (numbered rows)) as l.
  induction unique as [|c unique IH]; [destruct I|]. intros l. simpl. destruct I as [->|I]; auto.
  apply (present_part column _ _ (fold_part _ _)). apply once_unique.
Qed.

(** Theorem. With distinct draws, which rows are kept does not depend on the order in which they are stored. *)
Theorem choose_ignores_order cap unique rows rows' :
  NoDup (map draw (numbered rows)) -> Permutation rows rows' -> choose cap unique rows = choose cap unique rows'.
Proof. intros N P. unfold choose. rewrite (one_ranking rows rows' N P). reflexivity. Qed.
End Ranking.

(** A checked counterexample: with equal draws, the order in which rows are stored decides which one is kept. *)
Theorem equal_draws_depend_on_order :
  exists (draw : nat * nat -> Z) rows rows', Permutation rows rows' /\
    cut Nat.eq_dec draw 1 rows <> cut Nat.eq_dec draw 1 rows'.
Proof. exists (fun _ => 0), [0%nat; 1%nat], [1%nat; 0%nat]. split; [apply perm_swap|discriminate]. Qed.

(** ** The copy of a table *)

Section Table.
Context {Person Row : Type} (EqR : forall a b : Row, {a = b} + {a <> b}) (EqP : forall u v : Person, {u = v} + {u <> v}).
Variables (owner : Row -> Person) (draw : Person -> Row * nat -> Z) (cap : nat).
Context {Value : Type} (EqV : forall a b : Value, {a = b} + {a <> b}) (unique : list (Row -> option Value)).

Definition rows_of (u : Person) (D : list Row) : list Row :=
  filter (fun r => if EqP (owner r) u then true else false) D.

Definition kept (u : Person) (D : list Row) : list Row := choose EqR (draw u) EqV cap unique (rows_of u D).

Lemma kept_owner u D r : In r (kept u D) -> owner r = u.
Proof.
  intros H. apply choose_incl in H. apply filter_In in H as [_ H]. destruct (EqP (owner r) u); easy.
Qed.

(** [everyone] lists the people of both databases; a person without rows adds nothing. *)
Definition copy (everyone : list Person) (D : list Row) : list Row := flat_map (fun u => kept u D) everyone.

(** Neighbours in u hold the same rows of all others, in any order. *)
Definition differ_in (u : Person) (D D' : list Row) : Prop :=
  forall v, v <> u -> Permutation (rows_of v D) (rows_of v D').

Definition distinct_draws (D : list Row) : Prop :=
  forall v, NoDup (map (draw v) (numbered EqR (rows_of v D))).

(** Theorem. When a person comes, goes or changes, the copies differ in at most [cap] rows on each side, all of
    that person. *)
Theorem copy_changes_by_cap u everyone D D' :
  NoDup everyone -> distinct_draws D -> differ_in u D D' ->
  exists same mine mine',
    Permutation (copy everyone D) (same ++ mine) /\ Permutation (copy everyone D') (same ++ mine') /\
    (length mine <= cap)%nat /\ (length mine' <= cap)%nat /\
    (forall r, In r mine \/ In r mine' -> owner r = u).
Proof.
  intros N DD F.
  assert (E : forall l, ~ In u l -> flat_map (fun v => kept v D) l = flat_map (fun v => kept v D') l).
  { induction l as [|v l IH]; simpl; intros H; auto. rewrite IH by tauto. f_equal.
    unfold kept. apply choose_ignores_order; auto. }
  destruct (in_dec EqP u everyone) as [I|I].
  - destruct (in_split _ _ I) as (l1 & l2 & ->). apply NoDup_remove in N as [N H].
    exists (copy (l1 ++ l2) D), (kept u D), (kept u D').
    assert (G : forall D0, Permutation (copy (l1 ++ u :: l2) D0) (copy (l1 ++ l2) D0 ++ kept u D0)).
    { intros D0. unfold copy. rewrite !flat_map_app. simpl. rewrite <- app_assoc.
      apply Permutation_app_head, Permutation_app_comm. }
    split; [apply G|]. split.
    + unfold copy at 2. rewrite (E (l1 ++ l2) H). apply G.
    + repeat split; try apply choose_length. intros r [Hr|Hr]; eapply kept_owner; eauto.
  - exists (copy everyone D), [], []. rewrite !app_nil_r. unfold copy at 3. rewrite <- (E everyone I).
    repeat split; simpl; auto; try lia; try tauto.
Qed.

(** ** Sensitivities of what is computed from the copy *)

Definition sumZ (f : Row -> Z) (l : list Row) : Z := fold_right (fun r s => f r + s) 0 l.

Lemma sumZ_app f l m : sumZ f (l ++ m) = sumZ f l + sumZ f m.
Proof. induction l; simpl; lia. Qed.

Lemma sumZ_perm f l m : Permutation l m -> sumZ f l = sumZ f m.
Proof. induction 1; simpl; lia. Qed.

Lemma sumZ_range f low high l : (forall r, low <= f r <= high) -> low <= 0 <= high ->
  Z.of_nat (length l) * low <= sumZ f l <= Z.of_nat (length l) * high.
Proof. intros H Z. induction l as [|r l IH]; simpl length; [simpl; lia|]. specialize (H r). rewrite Nat2Z.inj_succ. simpl. lia. Qed.

Section Neighbours.
Variables (u : Person) (everyone : list Person) (D D' : list Row).
Hypotheses (N : NoDup everyone) (DD : distinct_draws D) (F : differ_in u D D').

Let total (f : Row -> Z) (X : list Row) : Z := sumZ f (copy everyone X).

(** Theorem. A sum of values between [low] and [high] (an absent value counts as 0) moves by at most the cap times
    the distance of the ends, counted from 0, when a person is replaced. *)
Theorem sum_sensitivity_replace f low high :
  (forall r, low <= f r <= high) -> low <= 0 <= high ->
  Z.abs (total f D - total f D') <= Z.of_nat cap * (high - low).
Proof.
  intros B Z0. destruct (copy_changes_by_cap u everyone D D' N DD F) as (s & m & m' & P & P' & L & L' & _).
  unfold total. rewrite (sumZ_perm f _ _ P), (sumZ_perm f _ _ P'), !sumZ_app.
  pose proof (sumZ_range f low high m B Z0). pose proof (sumZ_range f low high m' B Z0). nia.
Qed.

Lemma absent_adds_nothing X same mine : (forall r, In r mine -> owner r = u) ->
  Permutation (copy everyone X) (same ++ mine) -> rows_of u X = [] -> mine = [].
Proof.
  intros Ow PX E. destruct mine as [|r mine]; auto. exfalso.
  assert (Hr : In r (copy everyone X)).
  { apply (Permutation_in _ (Permutation_sym PX)). apply in_app_iff. simpl. auto. }
  unfold copy in Hr. apply in_flat_map in Hr as (v & _ & Hr).
  assert (v = u). { rewrite <- (kept_owner _ _ _ Hr). apply Ow. simpl. auto. } subst v.
  unfold kept in Hr. rewrite E in Hr. simpl in Hr. rewrite choose_nothing in Hr. destruct Hr.
Qed.

(** Theorem. If one of the two has no rows of the person (add-remove), it moves by at most the cap times the larger end. *)
Theorem sum_sensitivity_add_remove f most :
  0 <= most -> (forall r, Z.abs (f r) <= most) -> rows_of u D = [] \/ rows_of u D' = [] ->
  Z.abs (total f D - total f D') <= Z.of_nat cap * most.
Proof.
  intros M B A. destruct (copy_changes_by_cap u everyone D D' N DD F) as (s & m & m' & P & P' & L & L' & O).
  unfold total. rewrite (sumZ_perm f _ _ P), (sumZ_perm f _ _ P'), !sumZ_app.
  assert (R : forall l, Z.abs (sumZ f l) <= Z.of_nat (length l) * most).
  { induction l as [|r l IH]; simpl length; [simpl; lia|]. specialize (B r). rewrite Nat2Z.inj_succ. simpl. lia. }
  pose proof (R m). pose proof (R m'). destruct A as [A|A].
  - rewrite (absent_adds_nothing D s m (fun r H => O r (or_introl H)) P A) in *. simpl in *. nia.
  - rewrite (absent_adds_nothing D' s m' (fun r H => O r (or_intror H)) P' A) in *. simpl in *. nia.
Qed.

(** Theorem. A count of rows with any property moves by at most the cap, under both relations. *)
Theorem count_sensitivity (p : Row -> bool) :
  Z.abs (total (fun r => if p r then 1 else 0) D - total (fun r => if p r then 1 else 0) D') <= Z.of_nat cap.
Proof.
  replace (Z.of_nat cap) with (Z.of_nat cap * (1 - 0)) by lia.
  apply sum_sensitivity_replace; [intros r; destruct (p r); lia|lia].
Qed.

(** Cells. A row whose key is none of the declared ones is in no cell. *)
Context {Key : Type} (EqK : forall a b : Key, {a = b} + {a <> b}) (key : Row -> Key).

Definition cell (k : Key) (X : list Row) : Z := total (fun r => if EqK (key r) k then 1 else 0) X.

Definition sumK (f : Key -> Z) (l : list Key) : Z := fold_right (fun k s => f k + s) 0 l.

Lemma cells_of declared l : NoDup declared ->
  0 <= sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) l) declared <= Z.of_nat (length l).
Proof.
  intros Nd. induction l as [|r l IH]; simpl length.
  - assert (sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) []) declared = 0); [|simpl in *; lia].
    clear. induction declared; simpl in *; auto.
  - rewrite Nat2Z.inj_succ. simpl.
    assert (E : sumK (fun k => (if EqK (key r) k then 1 else 0) + sumZ (fun r => if EqK (key r) k then 1 else 0) l) declared
             = sumK (fun k => if EqK (key r) k then 1 else 0) declared
               + sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) l) declared).
    { clear. induction declared; simpl; lia. }
    rewrite E.
    assert (0 <= sumK (fun k => if EqK (key r) k then 1 else 0) declared <= 1); [|lia].
    clear - Nd. induction Nd as [|k l Hk Nd IH]; simpl; [lia|].
    destruct (EqK (key r) k) as [<-|]; [|lia].
    assert (sumK (fun k => if EqK (key r) k then 1 else 0) l = 0); [|lia].
    clear - Hk. induction l as [|k l IH]; simpl in *; auto.
    destruct (EqK (key r) k); [subst; tauto|]. rewrite IH; tauto.
Qed.

(** Theorem. All declared cells together move by at most twice the cap. *)
Theorem cells_sensitivity_replace declared : NoDup declared ->
  sumK (fun k => Z.abs (cell k D - cell k D')) declared <= 2 * Z.of_nat cap.
Proof.
  intros Nd. destruct (copy_changes_by_cap u everyone D D' N DD F) as (s & m & m' & P & P' & L & L' & _).
  pose proof (cells_of declared m Nd). pose proof (cells_of declared m' Nd).
  assert (E : sumK (fun k => Z.abs (cell k D - cell k D')) declared <=
    sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) m) declared +
    sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) m') declared); [|lia].
  assert (Pos : forall k l, 0 <= sumZ (fun r => if EqK (key r) k then 1 else 0) l).
  { intros k l. induction l as [|r l IH]; simpl; [lia|]. destruct (EqK (key r) k); lia. }
  assert (C : forall k, Z.abs (cell k D - cell k D') <= sumZ (fun r => if EqK (key r) k then 1 else 0) m +
     sumZ (fun r => if EqK (key r) k then 1 else 0) m').
  { intros k. unfold cell, total. rewrite (sumZ_perm _ _ _ P), (sumZ_perm _ _ _ P'), !sumZ_app.
    pose proof (Pos k m). pose proof (Pos k m'). lia. }
  clear - C. induction declared as [|k l IH]; simpl; [lia|]. specialize (C k). lia.
Qed.

(** Theorem. When a person comes or goes, all declared cells together move by at most the cap. *)
Theorem cells_sensitivity_add_remove declared : NoDup declared -> rows_of u D' = [] ->
  sumK (fun k => Z.abs (cell k D - cell k D')) declared <= Z.of_nat cap.
Proof.
  intros Nd A. destruct (copy_changes_by_cap u everyone D D' N DD F) as (s & m & m' & P & P' & L & _ & O).
  assert (m' = []) by (apply (absent_adds_nothing D' s); auto).
  subst m'. pose proof (cells_of declared m Nd).
  assert (Pos : forall k l, 0 <= sumZ (fun r => if EqK (key r) k then 1 else 0) l).
  { intros k l. induction l as [|r l IH]; simpl; [lia|]. destruct (EqK (key r) k); lia. }
  assert (E : sumK (fun k => Z.abs (cell k D - cell k D')) declared =
    sumK (fun k => sumZ (fun r => if EqK (key r) k then 1 else 0) m) declared); [|lia].
  assert (C : forall k, Z.abs (cell k D - cell k D') = sumZ (fun r => if EqK (key r) k then 1 else 0) m).
  { intros k. unfold cell, total. rewrite (sumZ_perm _ _ _ P), (sumZ_perm _ _ _ P'), !sumZ_app. simpl.
    pose proof (Pos k m). lia. }
  clear - C. induction declared as [|k l IH]; simpl; [lia|]. specialize (C k). lia.
Qed.

(** Theorem. A key outside the declared ones moves no declared cell: rows that differ only there change nothing. *)
Theorem outside_keys_count_nowhere declared k l :
  In k declared -> (forall r, In r l -> ~ In (key r) declared) -> sumZ (fun r => if EqK (key r) k then 1 else 0) l = 0.
Proof.
  intros I H. induction l as [|r l IH]; simpl; auto.
  destruct (EqK (key r) k) as [E|]; [exfalso; apply (H r); simpl; auto; rewrite E; auto|].
  apply IH. intros; apply H; simpl; auto.
Qed.

(** Theorem. If the kept rows of one person lie in at most [g] cells, at most [g] cells move when that person comes
    or goes. *)
Theorem few_cells_move g : rows_of u D' = [] -> (length (nodup EqK (map key (kept u D))) <= g)%nat ->
  forall cells, NoDup cells -> (forall k, In k cells -> cell k D <> cell k D') -> (length cells <= g)%nat.
Proof.
  intros A G cells Nc M. apply Nat.le_trans with (2 := G). apply NoDup_incl_length; auto.
  intros k Hk. apply nodup_In. specialize (M k Hk).
  destruct (in_dec EqK k (map key (kept u D))) as [I|I]; auto. exfalso. apply M. unfold cell, total.
  assert (V : forall v, sumZ (fun r => if EqK (key r) k then 1 else 0) (kept v D)
                      = sumZ (fun r => if EqK (key r) k then 1 else 0) (kept v D')).
  { intros v. destruct (EqP v u) as [->|Nv].
    - replace (kept u D') with (@nil Row).
      + simpl. clear - I. revert I. generalize (kept u D) as l. induction l as [|r l IH]; simpl; intros I; auto.
        destruct (EqK (key r) k); [exfalso; tauto|]. rewrite IH; tauto.
      + unfold kept. rewrite A, choose_nothing. reflexivity.
    - unfold kept. rewrite (choose_ignores_order EqR (draw v) EqV cap unique _ (rows_of v D') (DD v) (F v Nv)). reflexivity. }
  clear - V. unfold copy. induction everyone as [|v l IH]; simpl; auto. rewrite !sumZ_app, V, IH. reflexivity.
Qed.
End Neighbours.
End Table.
